import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * Kafka Streams: counts the records of each key in each minute, in a store with a changelog.
 *
 * Its arguments are the topics to read and to write, and settings of Streams.
 */
public class WindowedCounts {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        for (int number = 2; number < arguments.length; number++) {
            String[] pair = arguments[number].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        var text = Serdes.String();
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[0], Consumed.with(text, text))
            .groupByKey()
            .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1)))
            .count(Materialized.as("counts"))
            .toStream()
            .map((window, count) -> KeyValue.pair(window.key() + " " + window.window().start(), Long.toString(count)))
            .to(arguments[1], Produced.with(text, text));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        // A client in this state has ended.
        streams.setStateListener((state, before) -> {
            if (state == KafkaStreams.State.ERROR) {
                Runtime.getRuntime().halt(1);
            }
        });
        streams.start();
    }
}
