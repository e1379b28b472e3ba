import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Answers, line by line, what Kafka's own classes make of a message:
 *
 * <pre>
 *   read NAME VERSION HEX    ->  HEX JSON    decoded by Kafka, encoded again, and as JSON
 *   build NAME VERSION JSON  ->  HEX         built by Kafka from JSON, and encoded
 *   error CODE               ->  NAME
 * </pre>
 *
 * with "= " before an answer, and "! " before the exception by which Kafka refuses.
 */
public final class Oracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line));
            out.flush();
        }
    }

    private static String answer(String line) {
        String[] words = line.split(" ", 4);
        try {
            return "= " + switch (words[0]) {
                case "read" -> read(words[1], Short.parseShort(words[2]), words[3]);
                case "build" -> build(words[1], Short.parseShort(words[2]), words[3]);
                case "error" -> error(Short.parseShort(words[1]));
                default -> throw new IllegalArgumentException("no such command");
            };
        } catch (InvocationTargetException e) {
            return "! " + e.getCause();
        } catch (Exception e) {
            return "! " + e;
        }
    }

    private static String read(String name, short version, String hex) throws Exception {
        ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(hex));
        Class<?> type = data(name, "Data");
        ApiMessage message = (ApiMessage) type.getDeclaredConstructor().newInstance();
        message.read(new ByteBufferAccessor(bytes), version);
        if (bytes.hasRemaining()) {
            throw new IllegalStateException(bytes.remaining() + " bytes are left");
        }
        Object json = data(name, "DataJsonConverter")
            .getMethod("write", type, short.class, boolean.class)
            .invoke(null, message, version, true);
        return encode(message, version) + " " + json;
    }

    private static String build(String name, short version, String json) throws Exception {
        Object message = data(name, "DataJsonConverter")
            .getMethod("read", JsonNode.class, short.class)
            .invoke(null, JSON.readTree(json), version);
        return encode((ApiMessage) message, version);
    }

    private static String encode(ApiMessage message, short version) {
        var cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(bytes), cache, version);
        return HEX.formatHex(bytes.array(), 0, bytes.position());
    }

    private static String error(short code) {
        return Errors.forCode(code).name();
    }

    private static Class<?> data(String name, String suffix) throws ClassNotFoundException {
        return Class.forName("org.apache.kafka.common.message." + name + suffix);
    }
}
