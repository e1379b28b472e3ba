import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's Java producers and consumers by name: clients.py in Java. That file describes the calls.
 *
 * A command is a line: the call and its arguments, with tabs between. The answer is "ok" and the results, or "error" and
 * the class of the exception, also with tabs between.
 */
public class TransactionalClient {
    private static final Map<String, KafkaProducer<String, String>> PRODUCERS = new HashMap<>();
    private static final Map<String, KafkaConsumer<String, String>> CONSUMERS = new HashMap<>();
    private static final Duration POLL = Duration.ofMillis(50);
    private static final StringSerializer WRITING = new StringSerializer();
    private static final StringDeserializer READING = new StringDeserializer();

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split("\t")));
        }
    }

    private static String answer(String[] words) {
        List<String> told = new ArrayList<>(List.of("ok"));
        try {
            told.addAll(run(words));
        } catch (ExecutionException failed) {
            return error(failed.getCause());
        } catch (Exception thrown) {
            return error(thrown);
        }
        return String.join("\t", told);
    }

    private static String error(Throwable thrown) {
        return "error\t" + thrown.getClass().getSimpleName() + "\t" + thrown.toString().replaceAll("\\s+", " ");
    }

    private static List<String> run(String[] words) throws Exception {
        String name = words[1];
        KafkaProducer<String, String> producer = PRODUCERS.get(name);
        switch (words[0]) {
            case "producer" -> open(name, words[2], words[3], words[4]);
            case "begin" -> producer.beginTransaction();
            case "send" -> producer.send(
                new ProducerRecord<>(words[2], Integer.parseInt(words[3]), null, words[4])).get();
            case "offsets" -> producer.sendOffsetsToTransaction(offsets(words), CONSUMERS.get(words[2]).groupMetadata());
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "close" -> PRODUCERS.remove(name).close(Duration.ZERO);
            case "consumer" -> join(name, words[2], words[3], words[4]);
            case "poll" -> {
                return told(CONSUMERS.get(name).poll(POLL));
            }
            case "leave" -> CONSUMERS.remove(name).close();
            case "read" -> {
                return read(words[1], words[2], words[3], Long.parseLong(words[4]));
            }
            case "committed" -> {
                return committed(words[1], words[2], words[3]);
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
        return List.of();
    }

    private static void open(String name, String bootstrap, String transactionalId, String timeoutMs) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap,
            "transactional.id", transactionalId,
            "transaction.timeout.ms", timeoutMs,
            "linger.ms", 0);
        KafkaProducer<String, String> made = new KafkaProducer<>(settings, WRITING, WRITING);
        made.initTransactions();
        PRODUCERS.put(name, made);
    }

    /** The words after the consumer's name are a topic, then partitions and offsets, which take turns. */
    private static Map<TopicPartition, OffsetAndMetadata> offsets(String[] words) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        for (int at = 4; at < words.length; at += 2) {
            TopicPartition partition = new TopicPartition(words[3], Integer.parseInt(words[at]));
            found.put(partition, new OffsetAndMetadata(Long.parseLong(words[at + 1])));
        }
        return found;
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap, String isolation, Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(more);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", isolation);
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        settings.put("fetch.max.wait.ms", (int) POLL.toMillis());
        return new KafkaConsumer<>(settings, READING, READING);
    }

    private static void join(String name, String bootstrap, String group, String topic) {
        KafkaConsumer<String, String> made = consumer(bootstrap, "read_committed", Map.of("group.id", group));
        made.subscribe(List.of(topic));
        CONSUMERS.put(name, made);
    }

    private static List<String> told(Iterable<ConsumerRecord<String, String>> records) {
        List<String> found = new ArrayList<>();
        for (ConsumerRecord<String, String> each : records) {
            found.addAll(List.of(Integer.toString(each.partition()), Long.toString(each.offset()), each.value()));
        }
        return found;
    }

    private static List<String> read(String bootstrap, String topic, String isolation, long end) {
        TopicPartition partition = new TopicPartition(topic, 0);
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> made = consumer(bootstrap, isolation, Map.of())) {
            made.assign(List.of(partition));
            while (made.position(partition) < end) {
                for (ConsumerRecord<String, String> each : made.poll(POLL)) {
                    found.add(each.value());
                }
            }
        }
        return found;
    }

    /** Such a consumer waits until no transaction with offsets of the partition is open. */
    private static List<String> committed(String bootstrap, String group, String topic) {
        TopicPartition partition = new TopicPartition(topic, 0);
        try (var made = consumer(bootstrap, "read_committed", Map.of("group.id", group))) {
            return List.of(Long.toString(made.committed(Set.of(partition)).get(partition).offset()));
        }
    }
}
