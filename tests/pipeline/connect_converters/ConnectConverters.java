import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.runtime.errors.DeadLetterQueueReporter;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.runtime.errors.Stage;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Connect's converters and dead letters. A line has words with tabs between them, the answer "=" and words, or "!" and
 * what was thrown. Bytes are base64, "-" is null.
 *
 * read CLASS CONFIG BYTES: what the converter reads, as JSON, and what it writes of that.
 * letter TOPIC PARTITION OFFSET CONNECTOR TASK STAGE CLASS MESSAGE: the headers of a dead letter, key and value in turn.
 */
public class ConnectConverters {
    private static final ObjectMapper JSON =
        new ObjectMapper().disable(JsonGenerator.Feature.QUOTE_NON_NUMERIC_NUMBERS);

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            String answer;
            try {
                answer = "=\t" + (words[0].equals("read") ? read(words) : letter(words));
            } catch (DataException thrown) {
                answer = "!\t" + thrown.getClass().getName() + "\t" + thrown.getMessage().replace('\n', ' ');
            }
            System.out.println(answer);
        }
    }

    private static String read(String[] words) throws Exception {
        Converter converter = (Converter) Class.forName(words[1]).getConstructor().newInstance();
        Map<String, String> config = new HashMap<>();
        for (String pair : words[2].isEmpty() ? new String[0] : words[2].split(",")) {
            config.put(pair.split("=")[0], pair.split("=")[1]);
        }
        converter.configure(config, false);
        byte[] data = words[3].equals("-") ? null : Base64.getDecoder().decode(words[3]);
        SchemaAndValue found = converter.toConnectData("topic", data);
        return JSON.writeValueAsString(shown(found.value())) + "\t"
            + text(converter.fromConnectData("topic", found.schema(), found.value()));
    }

    /** Dates are milliseconds, decimals texts, bytes base64, and maps lists of pairs. */
    private static Object shown(Object value) {
        if (value instanceof Struct struct) {
            Map<String, Object> fields = new LinkedHashMap<>();
            struct.schema().fields().forEach(field -> fields.put(field.name(), shown(struct.getWithoutDefault(field.name()))));
            return fields;
        }
        if (value instanceof Map<?, ?> map) {
            List<Object> pairs = new ArrayList<>();
            map.forEach((key, each) -> pairs.add(Arrays.asList(shown(key), shown(each))));
            return pairs;
        }
        if (value instanceof List<?> list) {
            return list.stream().map(ConnectConverters::shown).toList();
        }
        if (value instanceof Float number) {
            return number.doubleValue();
        }
        if (value instanceof byte[] data) {
            return text(data);
        }
        if (value instanceof ByteBuffer data) {
            return text(data.array());
        }
        if (value instanceof BigDecimal) {
            return value.toString();
        }
        return value instanceof Date date ? date.getTime() : value;
    }

    /** The reporter needs a producer and metrics to be made; here it is only asked for headers. */
    private static String letter(String[] words) throws Exception {
        Field unsafe = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        Object reporter = ((sun.misc.Unsafe) unsafe.get(null)).allocateInstance(DeadLetterQueueReporter.class);
        Field id = DeadLetterQueueReporter.class.getDeclaredField("connectorTaskId");
        id.setAccessible(true);
        id.set(reporter, new ConnectorTaskId(words[4], Integer.parseInt(words[5])));
        byte[] none = {};
        ProcessingContext<ConsumerRecord<byte[], byte[]>> context = new ProcessingContext<>(
            new ConsumerRecord<>(words[1], Integer.parseInt(words[2]), Long.parseLong(words[3]), none, none));
        context.currentContext(Stage.valueOf(words[6]), Class.forName(words[7]));
        context.error(new DataException(words[8]));
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>("letters", none);
        Method populate = DeadLetterQueueReporter.class.getDeclaredMethod(
            "populateContextHeaders", ProducerRecord.class, ProcessingContext.class);
        populate.setAccessible(true);
        populate.invoke(reporter, record, context);
        List<String> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            headers.add(header.key() + "\t" + text(header.value()));
        }
        return String.join("\t", headers);
    }

    private static String text(byte[] data) {
        return data == null ? "-" : Base64.getEncoder().encodeToString(data);
    }
}
