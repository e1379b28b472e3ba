import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The stock Java consumer in a group: group_member.py in Java. That file describes the commands and the events.
 *
 * The first argument is the topic, each other one a setting of the consumer.
 */
public class GroupMember {
    private static final String END = "end";

    public static void main(String[] arguments) {
        Properties settings = new Properties();
        for (String each : List.of(arguments).subList(1, arguments.length)) {
            String[] pair = each.split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        Queue<String> said = listen();
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            consumer.subscribe(List.of(arguments[0]), new Listener());
            while (true) {
                for (String command = said.poll(); command != null; command = said.poll()) {
                    if (command.equals(END)) {
                        return;
                    }
                    obey(consumer, command.split(" "));
                    tell("\"done\", \"" + command + "\"");
                }
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(100))) {
                    tell("\"record\", \"" + each.topic() + "\", " + each.partition() + ", " + each.offset());
                }
            }
        }
    }

    private static Queue<String> listen() {
        Queue<String> said = new ConcurrentLinkedQueue<>();
        Thread reader = new Thread(() -> {
            new BufferedReader(new InputStreamReader(System.in)).lines().forEach(said::add);
            said.add(END);
        });
        reader.setDaemon(true);
        reader.start();
        return said;
    }

    private static void obey(KafkaConsumer<byte[], byte[]> consumer, String[] command) {
        switch (command[0]) {
            case "commit" -> consumer.commitSync();
            case "seek" -> consumer.seek(
                new TopicPartition(command[1], Integer.parseInt(command[2])), Long.parseLong(command[3]));
            case "rewind" -> consumer.seekToBeginning(consumer.assignment());
            case "pause" -> consumer.pause(consumer.assignment());
            case "resume" -> consumer.resume(consumer.paused());
            default -> throw new IllegalArgumentException(command[0]);
        }
    }

    private static void tell(String event) {
        System.out.println("[" + event + "]");
    }

    private static class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
            tellOf("assigned", assigned);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
            tellOf("revoked", revoked);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> lost) {
            tellOf("lost", lost);
        }

        private static void tellOf(String what, Collection<TopicPartition> partitions) {
            tell("\"" + what + "\", " + partitions.stream()
                .map(each -> "[\"" + each.topic() + "\", " + each.partition() + "]")
                .collect(Collectors.joining(", ", "[", "]")));
        }
    }
}
