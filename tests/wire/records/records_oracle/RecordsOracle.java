import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.TimestampType;

/**
 * Reads and builds record batches with Kafka's own classes, line by line. Bytes are hexadecimal, null is "-".
 *
 * <pre>
 *   read HEX  ->  the header's values, then one word a record
 *   build CODEC TYPE APPEND_TIME OFFSET EPOCH PRODUCER PRODUCER_EPOCH SEQUENCE TRANSACTIONAL RECORD...  ->  HEX
 *   marker TYPE COORDINATOR_EPOCH PRODUCER PRODUCER_EPOCH TIMESTAMP OFFSET EPOCH  ->  HEX
 * </pre>
 *
 * A record is "offset,timestamp,key,value,headers", headers "key=value;key=value;".
 */
public final class RecordsOracle {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = "= " + answer(line.split(" "));
            } catch (Exception e) {
                answer = "! " + e;
            }
            System.out.println(answer);
            System.out.flush();
        }
    }

    private static String answer(String[] words) {
        return switch (words[0]) {
            case "read" -> read(HEX.parseHex(words[1]));
            case "build" -> build(words);
            case "marker" -> marker(words);
            default -> throw new IllegalArgumentException(words[0]);
        };
    }

    private static String read(byte[] bytes) {
        List<String> answer = new ArrayList<>();
        for (MutableRecordBatch each : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches()) {
            DefaultRecordBatch batch = (DefaultRecordBatch) each;
            batch.ensureValid();
            for (Object value : new Object[] {
                batch.baseOffset(), batch.sizeInBytes(), batch.partitionLeaderEpoch(), batch.magic(), batch.checksum(),
                batch.compressionType().id, batch.timestampType().id, batch.isTransactional(), batch.isControlBatch(),
                batch.deleteHorizonMs().isPresent(), batch.lastOffset(), batch.nextOffset(), batch.baseTimestamp(),
                batch.maxTimestamp(), batch.producerId(), batch.producerEpoch(), batch.baseSequence(),
                batch.lastSequence(), batch.hasProducerId(), batch.countOrNull()}) {
                answer.add(String.valueOf(value));
            }
            for (Record record : batch) {
                answer.add(text(record));
                if (batch.isControlBatch()) {
                    answer.add(ControlRecordType.parse(record.key()).name());
                    answer.add("" + EndTransactionMarker.deserialize(record).coordinatorEpoch());
                }
            }
        }
        return String.join(" ", answer);
    }

    private static String text(Record record) {
        StringBuilder headers = new StringBuilder();
        for (Header header : record.headers()) {
            headers.append(hex(header.key().getBytes(StandardCharsets.UTF_8))).append('=');
            headers.append(hex(header.value())).append(';');
        }
        return record.offset() + "," + record.timestamp() + "," + hex(record.key()) + "," + hex(record.value())
            + "," + headers;
    }

    private static String build(String[] words) {
        ByteBuffer buffer = ByteBuffer.allocate(1 << 16);
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            buffer, (byte) 2, Compression.of(CompressionType.forId(Integer.parseInt(words[1]))).build(),
            words[2].equals("1") ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
            Long.parseLong(words[4]), Long.parseLong(words[3]), Long.parseLong(words[6]), Short.parseShort(words[7]),
            Integer.parseInt(words[8]), words[9].equals("true"), Integer.parseInt(words[5]));
        for (int i = 10; i < words.length; i++) {
            String[] parts = words[i].split(",", -1);
            List<Header> headers = new ArrayList<>();
            for (String header : parts[4].split(";")) {
                if (!header.isEmpty()) {
                    String[] pair = header.split("=", -1);
                    headers.add(new RecordHeader(new String(bytes(pair[0]), StandardCharsets.UTF_8), bytes(pair[1])));
                }
            }
            builder.appendWithOffset(Long.parseLong(parts[0]), Long.parseLong(parts[1]), bytes(parts[2]),
                bytes(parts[3]), headers.toArray(new Header[0]));
        }
        return hex(builder.build().buffer());
    }

    private static String marker(String[] words) {
        EndTransactionMarker marker =
            new EndTransactionMarker(ControlRecordType.valueOf(words[1]), Integer.parseInt(words[2]));
        return hex(MemoryRecords.withEndTransactionMarker(Long.parseLong(words[6]), Long.parseLong(words[5]),
            Integer.parseInt(words[7]), Long.parseLong(words[3]), Short.parseShort(words[4]), marker).buffer());
    }

    private static byte[] bytes(String hex) {
        return hex.equals("-") ? null : HEX.parseHex(hex);
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "-" : HEX.formatHex(bytes);
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return "-";
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HEX.formatHex(bytes);
    }
}
