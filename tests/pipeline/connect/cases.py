"""Records, and what is done to them: by Connect and by us."""

import datetime
from decimal import Decimal
from typing import Any

UTC = datetime.UTC
TIME = "org.apache.kafka.connect.data.Time"
HEADERS = [("trace", b"one"), ("other", b"two"), ("trace", b"three")]


def _at(*parts: int) -> datetime.datetime:
    return datetime.datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


def _texts(texts: str) -> list[Any]:
    return [(text, number) for number, text in enumerate([*texts.split("|"), None])]


# The type of values, and the values.
FRAMES: dict[str, tuple[str, list[Any]]] = {
    "numbers": (
        "struct<b: tinyint, h: smallint, i: int, l: bigint, f: float, d: double, t: boolean, x: decimal(12,2),"
        " day: date, at: timestamp, s: string, raw: binary, list: array<int>, m: map<string,int>>",
        [
            (
                1,
                2,
                3,
                4,
                1.5,
                -2.5,
                True,
                Decimal("7.89"),
                datetime.date(2024, 2, 29),
                _at(2024, 2, 29, 12, 34, 56, 789000),
                'say "hi" \\',
                b"\x00\xff" * 50,
                [1, None],
                {"k": 1},
            ),
            (
                -128,
                32767,
                -2147483648,
                9223372036854775807,
                3.4e38,
                1.7e308,
                False,
                Decimal("-9999999999.99"),
                datetime.date(1970, 1, 1),
                _at(1970, 1, 1, 0, 0),
                "",
                b"",
                [],
                {},
            ),
            (
                127,
                -32768,
                2147483647,
                -9223372036854775808,
                -3.4e38,
                -1e10,
                None,
                Decimal("0.00"),
                datetime.date(1969, 12, 31),
                _at(1969, 12, 31, 23, 59, 59, 999000),
                "x",
                b"x",
                [1, 2],
                {"a": None},
            ),
            (
                0,
                300,
                70000,
                5000000000,
                1e10,
                0.1,
                True,
                Decimal("300.01"),
                datetime.date(2262, 4, 12),
                _at(2024, 3, 1),
                "é",
                b"y",
                None,
                None,
            ),
            (None,) * 14,
            None,
        ],
    ),
    "texts": (
        "struct<s: string, n: int>",
        _texts(
            "12|-12|+7| 12|12 |12.5|abc||128|-129|40000|99999999999|9223372036854775808|"
            "1e3|NaN|nan|Infinity|inf|-Infinity|+inf|1.5f|1d|0x1p3|1e400|"
            "true|TRUE| true|yes|1_000|12\n|-|1.1|0.0001"
        ),
    ),
    "times": (
        "struct<unix: bigint, day: date, at: timestamp, clock: int>",
        [
            (1709210096789, datetime.date(2024, 2, 29), _at(2024, 2, 29, 12, 34, 56, 789000), 45296789),
            (0, datetime.date(1970, 1, 1), _at(1970, 1, 1), 0),
            (-1, datetime.date(1969, 12, 31), _at(1969, 12, 31, 23, 59, 59, 999000), 86399999),
            (-86400001, datetime.date(1600, 3, 1), _at(1600, 12, 31, 0, 0, 1), 43200000),
            (253402300799999, datetime.date(9999, 12, 31), _at(2262, 4, 12, 23, 47, 16, 855000), 3600000),
            (None, None, None, None),
            None,
        ],
    ),
    "seconds": ("struct<unix: bigint>", [(1709210096,), (0,), (-1,), (None,)]),
    "nested": (
        "struct<id: int, inner: struct<name: string, deep: struct<n: bigint, list: array<int>>>, `a.b`: int>",
        [
            (1, ("x", (5, [1, 2])), 7),
            (2, ("y", None), None),
            (3, None, 8),
            None,
        ],
    ),
    "longs": ("map<string,bigint>", [{"a": 1, "b": None}, {}, {"c": 3, "topic": 4}, None]),
    "strings": ("map<string,string>", [{"a": "x", "b": None}, {}, {"c": "1", "b": "y"}, None]),
    "int": ("int", [1, 300, -1, 0, None]),
    "string": ("string", ["1", "abc", "", None]),
    "timestamp": ("timestamp", [_at(2024, 2, 29, 12, 34, 56, 789000), _at(1970, 1, 1), None]),
    "binary": ("binary", [b"\x00\xff", b"", None]),
    "dates as texts": (
        "struct<s: string, n: int>",
        _texts(
            "2024-02-29 12:34:56.789|2024-13-45 25:61:61.5|1969-12-31 23:59:59.999|"
            "2024-1-2 3:4:5.6 and more|  2024- 02-29\t 12:34:56.789|"
            "bad|2024-02-29||1999-1-1 0:0:0.0|01999-1-1 0:0:0.0"
        ),
    ),
    "short dates": (
        "struct<s: string, n: int>",
        _texts("24/2/29 1:05 PM|85/12/1 12:00 AM|2024/2/9 12:59 pm|1605/1/1 13:00 AM|99/1/1 0:00 PM|5/1/1 1:00 XM"),
    ),
    "long dates": (
        "struct<s: string, n: int>",
        _texts(
            "Thu, 29 Feb 2024 12:34:56 +0200|Thursday, 1 march 2024 00:00:00 GMT|"
            "Thu, 29 SEPTEMBER 2024 1:2:3 -1130|Thu, 29 Mai 2024 1:2:3 +0000|"
            "x, 29 Feb 2024 1:2:3 UTC|Fri, 1 May 2020 1:2:3 GMT-8:30"
        ),
    ),
    "dense dates": ("struct<s: string, n: int>", _texts("20240229123456|2024022912345|202402291234567|2024")),
    "zoned dates": (
        "struct<s: string, n: int>",
        _texts("2024-060T10:00:00Z|2024-366T24:00:00+05:30|2024-001T00:00:00-00:15|2024-001T00:00:00+0530"),
    ),
}

Chain = list[dict[str, Any]]


def one(
    name: str, predicate: tuple[str, dict[str, str]] | None = None, negate: bool = False, **config: str
) -> dict[str, Any]:
    """Return a stage; `_` in keys stands for a dot."""
    stage: dict[str, Any] = {"class": name, "config": {key.replace("_", "."): value for key, value in config.items()}}
    if predicate is not None:
        stage["predicate"] = {"class": f"predicates.{predicate[0]}", "config": predicate[1]}
        stage["negate"] = negate
    return stage


TOMBSTONE: tuple[str, dict[str, str]] = ("RecordIsTombstone", {})
MATCHES = ("TopicNameMatches", {"pattern": "or|ord.*"})
MATCHES_A_PART = ("TopicNameMatches", {"pattern": "ord"})
HAS_TRACE = ("HasHeaderKey", {"name": "trace"})
HAS_NONE = ("HasHeaderKey", {"name": "Trace"})

NUMBERS = "b:{0},h:{0},i:{0},l:{0},f:{0},d:{0},t:{0},x:{0},day:{0},at:{0}"
TARGETS = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
LETTERS = (
    "yyyy y yy yyyyy M MM MMM MMMM L d dd D DDD E EEEE F u G a H HH k K h m s S SSS SSSSS z zzzz Z X XX XXX "
    "'it''s' '' %"
)
FULL = "yyyy-MM-dd HH:mm:ss.SSS"

CASES: list[tuple[str, Chain]] = [
    *[("numbers", [one("Cast$Value", spec=NUMBERS.format(target))]) for target in TARGETS],
    *[("texts", [one("Cast$Value", spec=f"s:{target}")]) for target in TARGETS[:-1]],
    *[("texts", [one("Cast$Value", spec="s:float64"), one("Cast$Value", spec=f"s: {to}")]) for to in ("INT8", "int64")],
    ("numbers", [one("Cast$Key", spec="raw:string,nothing:int8")]),
    ("int", [one("Cast$Value", spec="int8")]),
    ("string", [one("Cast$Value", spec="int32"), one("HoistField$Value", field="n")]),
    ("binary", [one("Cast$Value", spec="string"), one("Cast$Key", spec="string")]),
    ("int", [one("DropHeaders", headers="trace")]),
    ("int", [one("DropHeaders", headers="nothing, other")]),
    ("nested", [one("ExtractField$Value", field="inner")]),
    ("nested", [one("ExtractField$Value", field="inner"), one("ExtractField$Value", field="deep")]),
    ("nested", [one("ExtractField$Key", field="inner.deep.n", field_syntax_version="v2")]),
    ("nested", [one("ExtractField$Value", field="a.b"), one("InsertHeader", header="h", value_literal="true")]),
    ("nested", [one("ExtractField$Value", field="`a.b`", field_syntax_version="V2")]),
    ("strings", [one("ExtractField$Value", field="b")]),
    ("int", [one("Filter")]),
    ("int", [one("Filter", TOMBSTONE)]),
    ("int", [one("Filter", TOMBSTONE, negate=True)]),
    ("int", [one("Filter", MATCHES)]),
    ("int", [one("Filter", MATCHES_A_PART)]),
    ("int", [one("Filter", HAS_TRACE)]),
    ("int", [one("Filter", HAS_NONE)]),
    ("nested", [one("Flatten$Value")]),
    ("nested", [one("Flatten$Key", delimiter="_")]),
    ("strings", [one("Flatten$Value")]),
    ("numbers", [one("HeaderFrom$Value", fields="b,l,f,d,t,x,s", headers="b,l,f,d,t,x,s", operation="copy")]),
    ("numbers", [one("HeaderFrom$Value", fields="day,at,raw,list,m", headers="h,h,h,trace,h", operation="move")]),
    ("nested", [one("HeaderFrom$Key", fields="inner,id", headers="inner,id", operation="move")]),
    ("strings", [one("HeaderFrom$Value", fields="a,b", headers="a,b", operation="move")]),
    ("strings", [one("HeaderFrom$Value", fields="c", headers="c", operation="copy")]),
    ("numbers", [one("HoistField$Value", field="whole"), one("HoistField$Key", field="a.b")]),
    ("string", [one("HoistField$Value", field="line")]),
    ("numbers", [one("InsertField$Value", topic_field="to", partition_field="p!", timestamp_field="t2?")]),
    ("nested", [one("InsertField$Key", static_field="who", static_value="me", timestamp_field="ts!")]),
    ("longs", [one("InsertField$Value", partition_field="p", offset_field="topic", timestamp_field="ts")]),
    ("strings", [one("InsertField$Value", topic_field="a", static_field="b!", static_value="x")]),
    ("numbers", [one("InsertField$Value", TOMBSTONE, negate=True, offset_field="o")]),
    ("numbers", [one("MaskField$Value", fields="b,h,i,l,f,d,t,day,at,s,list,m,nothing")]),
    ("numbers", [one("MaskField$Value", fields="b,h,i,l,f,d,s", replacement="300.7")]),
    ("numbers", [one("MaskField$Key", fields="b,l,f,d", replacement="-1e70")]),
    ("numbers", [one("MaskField$Value", fields="x", replacement="-1.50")]),
    ("texts", [one("MaskField$Value", fields="s", replacement="***")]),
    ("longs", [one("MaskField$Value", fields="a,b,z")]),
    ("strings", [one("MaskField$Value", fields="a,b", replacement="xxx")]),
    ("int", [one("RegexRouter", regex="o(r)(?<rest>.*)", replacement="${rest}-$1")]),
    ("int", [one("RegexRouter", regex="o|or.*", replacement="x")]),
    ("int", [one("RegexRouter", regex="rder", replacement="x")]),
    ("numbers", [one("ReplaceField$Value", blacklist="b,h", renames="i:j,l:i")]),
    ("numbers", [one("ReplaceField$Value", include="b,h,x", exclude="h", renames="b:x2,h:y")]),
    ("nested", [one("ReplaceField$Key", renames="inner:outer")]),
    ("strings", [one("ReplaceField$Value", include="a,c", renames="a:z,c:a")]),
    ("longs", [one("ReplaceField$Value", exclude="b", renames="a:c2")]),
    ("longs", [one("ReplaceField$Value", whitelist="b,c")]),
    ("numbers", [one("SetSchemaMetadata$Value", schema_name="a.Name", schema_version="7")]),
    ("nested", [one("SetSchemaMetadata$Key", schema_name="K"), one("InsertField$Key", offset_field="o")]),
    ("nested", [one("SetSchemaMetadata$Value", schema_name="V"), one("ExtractField$Value", field="inner")]),
    *[
        (
            "times",
            [
                one("TimestampConverter$Value", field=field, target_type=to, format=FULL)
                for field in ("unix", "day", "at", "clock")
            ],
        )
        for to in ("string", "unix", "Date", "Time", "Timestamp")
    ],
    *[
        (
            "times",
            [
                one("TimestampConverter$Value", field="unix", target_type="Date", unix_precision=precision),
                one("TimestampConverter$Value", field="at", target_type="unix", unix_precision=precision),
            ],
        )
        for precision in ("milliseconds", "microseconds", "nanoseconds")
    ],
    ("times", [one("TimestampConverter$Value", field="at", target_type="unix", unix_precision="seconds")]),
    ("seconds", [one("TimestampConverter$Value", field="unix", target_type="Timestamp", unix_precision="seconds")]),
    ("times", [one("TimestampConverter$Key", field="at", target_type="string", format=LETTERS)]),
    ("times", [one("TimestampConverter$Value", field="nothing", target_type="Date")]),
    ("timestamp", [one("TimestampConverter$Value", target_type="Time")]),
    ("timestamp", [one("TimestampConverter$Key", target_type="unix")]),
    ("timestamp", [one("TimestampConverter$Value", target_type="Date"), one("HoistField$Value", field="d")]),
    *[
        (frame, [one("TimestampConverter$Value", field="s", target_type="Timestamp", format=form)])
        for frame, form in (
            ("dates as texts", FULL),
            ("short dates", "yy/M/d h:mm a"),
            ("long dates", "EEE, d MMM yyyy HH:mm:ss Z"),
            ("long dates", "EEEE, d MMMM y H:m:s z"),
            ("dense dates", "yyyyMMddHHmmss"),
            ("zoned dates", "yyyy-DDD'T'kk:mm:ssXXX"),
            ("zoned dates", "yyyy-DDD'T'HH:mm:ssX"),
        )
    ],
    ("int", [one("TimestampRouter")]),
    ("int", [one("TimestampRouter", topic_format="${timestamp}/${topic}$x", timestamp_format="yyyy-'w'u")]),
    ("numbers", [one("ValueToKey", fields="s,i"), one("ExtractField$Key", field="i")]),
    ("strings", [one("ValueToKey", fields="a,z")]),
]  # fmt: skip

_LITERALS = (
    "1.0|007|+5|-0.0|.5|12:30|1,234|1e3|1E+3|3.14159265358979|1e20|-1e20|100000000000000000000|1.5e300|1e400|1e-400|"
    "0.0001|0.001|1234567.5|12345678.5|16777216.5|9223372036854775807|9223372036854775808|true|TRUE|false|false}|null|"
    'nullx|abc|a "quoted" word|"1"|2024-02-29|2024-13-01|2024-1-1xx|1969-12-31|10:20:30.123Z|10:20:30.123|'
    "2024-02-29T10:20:30.123Z|2024-02-29T00:00:00.000Z|2024-02-29T25:00:00.000Z|1970-01-01T10:00:00.000Z|x:y|"
    "10\\:20\\:30.123Z|12 monkeys|5}|1.5f|{not a map|[not, a list|\\|a\\"
)
LITERALS = _LITERALS.split("|")
