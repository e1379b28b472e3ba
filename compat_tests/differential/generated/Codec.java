import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;

/**
 * Encodes requests and decodes responses, line by line, with Kafka's classes:
 *
 * <pre>
 *   request KEY VERSION CLIENT JSON  ->  HEX     header and body, without the size before them
 *   response KEY VERSION HEX         ->  JSON    the body; the records of a Fetch are decoded too
 * </pre>
 *
 * with "= " before an answer, and "! " before an exception of Kafka. A request's "unknownTag" becomes an unknown tagged
 * field of the message and of its header.
 */
public final class Codec {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final MethodHandles.Lookup LOOKUP = MethodHandles.lookup();
    private static final Map<Class<?>, MethodHandle> READERS = new HashMap<>();
    private static final Map<Class<?>, MethodHandle> WRITERS = new HashMap<>();
    private static final int CORRELATION_ID = 7;

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line));
            out.flush();
        }
    }

    private static String answer(String line) {
        String[] words = line.split(" ", 5);
        try {
            short version = Short.parseShort(words[2]);
            ApiMessageType api = ApiMessageType.fromApiKey(Short.parseShort(words[1]));
            return "= " + (words[0].equals("request")
                ? request(api, version, words[3], JSON.readTree(words[4]))
                : response(api, version, words[3]));
        } catch (Throwable e) {
            return "! " + e.toString().replace('\n', ' ');
        }
    }

    private static String request(ApiMessageType api, short version, String client, JsonNode json) throws Throwable {
        short headerVersion = api.requestHeaderVersion(version);
        var header = new RequestHeaderData()
            .setRequestApiKey(api.apiKey())
            .setRequestApiVersion(version)
            .setCorrelationId(CORRELATION_ID)
            .setClientId(client);
        Class<?> type = api.newRequest().getClass();
        var message = (ApiMessage) READERS.computeIfAbsent(type, Codec::reader).invoke(json, version);
        if (json.has("unknownTag") && headerVersion >= 2) {
            var tag = new RawTaggedField(json.get("unknownTag").asInt(), new byte[] {1, 2, 3});
            header.unknownTaggedFields().add(tag);
            message.unknownTaggedFields().add(tag);
        }
        return encode(header, headerVersion) + encode(message, version);
    }

    private static String encode(ApiMessage message, short version) {
        var cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(bytes), cache, version);
        return HEX.formatHex(bytes.array(), 0, bytes.position());
    }

    private static String response(ApiMessageType api, short version, String hex) throws Throwable {
        var bytes = new ByteBufferAccessor(ByteBuffer.wrap(HEX.parseHex(hex)));
        int correlationId = new ResponseHeaderData(bytes, api.responseHeaderVersion(version)).correlationId();
        if (correlationId != CORRELATION_ID) {
            throw new IllegalStateException("the answer to request " + correlationId);
        }
        ApiMessage message = api.newResponse();
        message.read(bytes, version);
        if (bytes.remaining() > 0) {
            throw new IllegalStateException(bytes.remaining() + " bytes are left");
        }
        var json = (JsonNode) WRITERS.computeIfAbsent(message.getClass(), Codec::writer).invoke(message, version, true);
        if (message instanceof FetchResponseData fetched) {
            addRecords(fetched, json);
        }
        return json.toString();
    }

    private static void addRecords(FetchResponseData fetched, JsonNode json) {
        for (int i = 0; i < fetched.responses().size(); i++) {
            var partitions = fetched.responses().get(i).partitions();
            for (int j = 0; j < partitions.size(); j++) {
                var partition = (ObjectNode) json.get("responses").get(i).get("partitions").get(j);
                partition.remove("recordsSizeInBytes");
                if (partitions.get(j).records() instanceof MemoryRecords records) {
                    partition.set("records", batches(records));
                }
            }
        }
    }

    private static ArrayNode batches(MemoryRecords records) {
        ArrayNode found = JSON.createArrayNode();
        for (RecordBatch batch : records.batches()) {
            ObjectNode json = found.addObject();
            json.put("valid", batch.isValid());
            json.put("magic", batch.magic());
            json.put("baseOffset", batch.baseOffset());
            json.put("lastOffset", batch.lastOffset());
            json.put("leaderEpoch", batch.partitionLeaderEpoch());
            json.put("compression", batch.compressionType().name);
            json.put("timestampType", batch.timestampType().name);
            json.put("maxTimestamp", batch.maxTimestamp());
            json.put("producerId", batch.producerId());
            json.put("producerEpoch", batch.producerEpoch());
            json.put("baseSequence", batch.baseSequence());
            json.put("transactional", batch.isTransactional());
            json.put("control", batch.isControlBatch());
            json.put("deleteHorizonMs", batch.deleteHorizonMs().orElse(-1));
            ArrayNode elements = json.putArray("records");
            for (Record record : batch) {
                ObjectNode element = elements.addObject();
                element.put("offset", record.offset());
                element.put("sequence", record.sequence());
                element.put("timestamp", record.timestamp());
                element.put("key", hex(record.key()));
                element.put("value", hex(record.value()));
                for (Header header : record.headers()) {
                    element.withArray("headers").add(header.key() + "=" + hex(ByteBuffer.wrap(header.value())));
                }
            }
        }
        return found;
    }

    private static String hex(ByteBuffer bytes) {
        if (bytes == null) {
            return null;
        }
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        return HEX.formatHex(copy);
    }

    private static MethodHandle reader(Class<?> type) {
        return converter(type, "read", MethodType.methodType(type, JsonNode.class, short.class));
    }

    private static MethodHandle writer(Class<?> type) {
        return converter(type, "write", MethodType.methodType(JsonNode.class, type, short.class, boolean.class));
    }

    private static MethodHandle converter(Class<?> type, String name, MethodType method) {
        try {
            return LOOKUP.findStatic(Class.forName(type.getName() + "JsonConverter"), name, method);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }
}
