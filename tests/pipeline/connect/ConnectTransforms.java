import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Runs records through Connect's own transforms: a line of JSON in, a line of JSON out.
 *
 * <pre>
 *   {"config": CLASS}                                      ->  [{name, type, required, default, importance}]
 *   {"transforms": [{"class", "config", "predicate", "negate"}], "records": [...]}  ->  [RECORD | null | {"error"}]
 * </pre>
 *
 * Keys and values are {"schema", "payload"} as JsonConverter has them, {"payload"} without a schema, or null.
 */
public final class ConnectTransforms {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final SimpleHeaderConverter HEADERS = new SimpleHeaderConverter();
    private static final JsonConverter WITH_SCHEMAS = converter(true);
    private static final JsonConverter WITHOUT_SCHEMAS = converter(false);

    private record Stage(Transformation<SinkRecord> transform, Predicate<SinkRecord> predicate, boolean negate) {}

    public static void main(String[] arguments) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode request = JSON.readTree(line);
            JsonNode answer;
            try {
                answer = request.has("config") ? config(request.get("config").asText()) : apply(request);
            } catch (Exception e) {
                answer = JSON.createObjectNode().put("refused", e.toString());
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }

    private static JsonConverter converter(boolean schemas) {
        var converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", schemas), false);
        return converter;
    }

    private static JsonNode config(String name) throws Exception {
        Object plugin = instance(name);
        ConfigDef keys = plugin instanceof Predicate<?> p ? p.config() : ((Transformation<?>) plugin).config();
        ArrayNode answer = JSON.createArrayNode();
        for (ConfigDef.ConfigKey key : keys.configKeys().values()) {
            answer.addObject()
                .put("name", key.name)
                .put("type", key.type.toString())
                .put("required", !key.hasDefault())
                .put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null)
                .put("importance", key.importance.toString());
        }
        return answer;
    }

    private static JsonNode apply(JsonNode request) throws Exception {
        List<Stage> stages = new ArrayList<>();
        for (JsonNode each : request.get("transforms")) {
            Transformation<SinkRecord> transform = instance(each.get("class").asText());
            transform.configure(texts(each.get("config")));
            Predicate<SinkRecord> predicate = null;
            if (each.hasNonNull("predicate")) {
                predicate = instance(each.get("predicate").get("class").asText());
                predicate.configure(texts(each.get("predicate").get("config")));
            }
            stages.add(new Stage(transform, predicate, each.path("negate").asBoolean()));
        }
        ArrayNode answer = JSON.createArrayNode();
        for (JsonNode each : request.get("records")) {
            answer.add(applied(stages, each));
        }
        return answer;
    }

    private static JsonNode applied(List<Stage> stages, JsonNode json) throws Exception {
        SinkRecord record = record(json);
        try {
            for (Stage stage : stages) {
                if (stage.predicate() == null || stage.negate() ^ stage.predicate().test(record)) {
                    record = stage.transform().apply(record);
                }
                if (record == null) {
                    return JSON.nullNode();
                }
            }
        } catch (RuntimeException e) {
            ObjectNode answer = JSON.createObjectNode();
            answer.putObject("error").put("class", e.getClass().getName()).put("message", e.getMessage());
            return answer;
        }
        return json(record);
    }

    private static SinkRecord record(JsonNode json) throws Exception {
        SchemaAndValue key = data(json.get("key"));
        SchemaAndValue value = data(json.get("value"));
        var headers = new ConnectHeaders();
        for (JsonNode header : json.get("headers")) {
            headers.addString(header.get(0).asText(), header.get(1).asText());
        }
        Long timestamp = json.hasNonNull("timestamp") ? json.get("timestamp").asLong() : null;
        Integer partition = json.hasNonNull("partition") ? json.get("partition").asInt() : null;
        return new SinkRecord(json.get("topic").asText(), partition, key.schema(), key.value(), value.schema(),
            value.value(), json.get("offset").asLong(), timestamp, TimestampType.CREATE_TIME, headers);
    }

    private static SchemaAndValue data(JsonNode json) throws Exception {
        if (json.isNull()) {
            return SchemaAndValue.NULL;
        }
        boolean hasSchema = json.has("schema");
        JsonNode written = hasSchema ? json : json.get("payload");
        return (hasSchema ? WITH_SCHEMAS : WITHOUT_SCHEMAS).toConnectData("topic", JSON.writeValueAsBytes(written));
    }

    private static JsonNode json(SinkRecord record) throws Exception {
        ObjectNode answer = JSON.createObjectNode().put("topic", record.topic()).put("partition", record.kafkaPartition());
        answer.set("key", json(record.keySchema(), record.key()));
        answer.set("value", json(record.valueSchema(), record.value()));
        ArrayNode headers = answer.putArray("headers");
        record.headers().forEach(header -> {
            byte[] bytes = HEADERS.fromConnectHeader(record.topic(), header.key(), header.schema(), header.value());
            String text = bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
            headers.addArray().add(header.key()).add(text);
        });
        return answer;
    }

    private static JsonNode json(Schema schema, Object value) throws Exception {
        byte[] bytes = WITH_SCHEMAS.fromConnectData("topic", schema, value);
        return bytes == null ? JSON.nullNode() : JSON.readTree(bytes);
    }

    private static Map<String, String> texts(JsonNode json) {
        return JSON.convertValue(json, JSON.getTypeFactory().constructMapType(Map.class, String.class, String.class));
    }

    @SuppressWarnings("unchecked")
    private static <T> T instance(String name) throws Exception {
        return (T) Class.forName(name).getDeclaredConstructor().newInstance();
    }
}
