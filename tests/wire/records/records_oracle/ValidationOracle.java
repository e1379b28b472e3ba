import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.CorruptRecordException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/**
 * Lets Kafka's own validation judge what a producer sends, line by line:
 *
 * <pre>
 *   VERSION COMPACTED TYPE BEFORE_MAX AFTER_MAX MAX_BYTES NOW CODEC HEX  ->  0 MAX_TIMESTAMP HEX  or  CODE [INDEX,...]
 * </pre>
 *
 * What UnifiedLog looks at between ProduceRequest and LogValidator is private there, and repeated here.
 */
public final class ValidationOracle {
    private static final HexFormat HEX = HexFormat.of();
    private static final TopicPartition PARTITION = new TopicPartition("t", 0);

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = validate(line.split(" "));
            } catch (RecordValidationException e) {
                StringBuilder indices = new StringBuilder(" ");
                e.recordErrors().forEach(error -> indices.append(error.batchIndex).append(','));
                answer = Errors.forException(e.invalidException()).code() + indices.toString();
            } catch (Throwable e) {
                answer = String.valueOf(Errors.forException(e).code());
            }
            System.out.println("= " + answer);
            System.out.flush();
        }
    }

    private static String validate(String[] words) {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(words[8])));
        ProduceRequest.validateRecords(Short.parseShort(words[0]), records);
        CompressionType source = CompressionType.NONE;
        int valid = 0;
        for (MutableRecordBatch batch : records.batches()) {
            if (batch.baseOffset() != 0) {
                throw new InvalidRecordException("base offset");
            }
            if (batch.sizeInBytes() > Integer.parseInt(words[5])) {
                throw new RecordTooLargeException("size");
            }
            if (!batch.isValid()) {
                throw new CorruptRecordException("checksum");
            }
            source = batch.compressionType();
            valid += batch.sizeInBytes();
        }
        ByteBuffer trimmed = records.buffer().duplicate();
        trimmed.limit(valid);
        LogValidator validator = new LogValidator(
            MemoryRecords.readableRecords(trimmed), PARTITION, at(Long.parseLong(words[6])), source,
            Compression.of(words[7].equals("-") ? source : CompressionType.forId(Integer.parseInt(words[7]))).build(),
            words[1].equals("1"), (byte) 2,
            words[2].equals("1") ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
            Long.parseLong(words[3]), Long.parseLong(words[4]), 5, AppendOrigin.CLIENT,
            MetadataVersion.latestProduction());
        LogValidator.ValidationResult result =
            validator.validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(100), new NoMetrics(), BufferSupplier.NO_CACHING);
        if (result.messageSizeMaybeChanged && result.validatedRecords.sizeInBytes() > Integer.parseInt(words[5])) {
            throw new RecordTooLargeException("size");
        }
        ByteBuffer buffer = result.validatedRecords.buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return "0 " + result.maxTimestampMs + " " + HEX.formatHex(bytes);
    }

    /** A clock that stands still. */
    private static Time at(long now) {
        return (Time) Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, arguments) -> method.getName().equals("milliseconds") ? now : 0L);
    }

    private static final class NoMetrics implements LogValidator.MetricsRecorder {
        @Override
        public void recordInvalidMagic() {
        }

        @Override
        public void recordInvalidOffset() {
        }

        @Override
        public void recordInvalidSequence() {
        }

        @Override
        public void recordInvalidChecksums() {
        }

        @Override
        public void recordNoKeyCompactedTopic() {
        }
    }
}
