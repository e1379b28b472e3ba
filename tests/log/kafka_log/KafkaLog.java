import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ScheduledFuture;
import java.util.stream.Collectors;

import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Kafka's log of one partition, driven line by line: "= answer", or "- exception" where Kafka throws. */
public class KafkaLog {
    private static UnifiedLog log;

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = "= " + answer(line.split(" "));
            } catch (Throwable error) {
                answer = "- " + error.getClass().getSimpleName() + " " + error.getMessage() + " "
                    + Arrays.toString(error.getStackTrace());
            }
            out.println(answer.replace('\n', ' '));
            out.flush();
        }
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "open":
                open(new File(words[1]), words[2].equals("clean"), Long.parseLong(words[3]), words[4]);
                return state();
            case "lead": {
                LogAppendInfo info = log.appendAsLeader(records(words[2]), Integer.parseInt(words[1]));
                return info.firstOffset() + " " + info.lastOffset();
            }
            case "follow":
                log.appendAsFollower(records(words[2]), Integer.parseInt(words[1]));
                return state();
            case "truncate":
                log.truncateTo(Long.parseLong(words[1]));
                return state();
            case "roll":
                log.roll();
                return state();
            case "state":
                return state();
            case "time":
                return log.fetchOffsetByTimestamp(Long.parseLong(words[1]), Optional.empty())
                    .timestampAndOffsetOpt()
                    .map(found -> found.timestamp + " " + found.offset + " " + found.leaderEpoch.orElse(-1))
                    .orElse("none");
            case "read":
                return read(Long.parseLong(words[1]), Integer.parseInt(words[2]), words[3].equals("whole"));
            case "clean":
                return clean(Long.parseLong(words[1]), Long.parseLong(words[2]), Integer.parseInt(words[3]));
            case "close":
                log.close();
                return "closed";
            case "crash":
                log.closeHandlers();
                return "crashed";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static void open(File directory, boolean clean, long recoveryPoint, String settings) throws Exception {
        Map<String, String> config = new HashMap<>();
        for (String setting : settings.split(","))
            config.put(setting.split("=")[0], setting.split("=")[1]);
        log = UnifiedLog.create(
            directory, new LogConfig(config), 0L, recoveryPoint, new AtOnce(), new BrokerTopicStats(false), Time.SYSTEM,
            900_000, new ProducerStateManagerConfig(Integer.MAX_VALUE, false), Integer.MAX_VALUE,
            new LogDirFailureChannel(1), clean, Optional.empty());
    }

    /** Cleans up to the active segment with a map of so many keys; says where the next time begins. */
    private static String clean(long firstDirtyOffset, long nowMs, int keys) throws Exception {
        Throttler atFullSpeed = new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "entries", Time.SYSTEM);
        // Half full at most, lest it search for long; a slot takes 24 bytes.
        Cleaner cleaner = new Cleaner(
            0, new SkimpyOffsetMap(48 * keys), 1 << 18, 1 << 20, 0.5, atFullSpeed, Time.SYSTEM, partition -> { });
        long firstUncleanableOffset = log.activeSegment().baseOffset();
        LogToClean cleanable = new LogToClean(log, firstDirtyOffset, firstUncleanableOffset, false);
        return Long.toString(cleaner.doClean(cleanable, nowMs).getKey());
    }

    private static MemoryRecords records(String hex) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(HexFormat.of().parseHex(hex)));
    }

    private static String state() {
        String bases = log.logSegments().stream().map(s -> Long.toString(s.baseOffset())).collect(Collectors.joining(","));
        String epochs = log.leaderEpochCache().epochEntries().stream()
            .map(entry -> entry.epoch() + ":" + entry.startOffset()).collect(Collectors.joining(","));
        String producers = log.producerStateManager().activeProducers().values().stream().sorted(
                (one, other) -> Long.compare(one.producerId(), other.producerId()))
            .map(entry -> String.join(":", Long.toString(entry.producerId()), Short.toString(entry.producerEpoch()),
                lastSequence(entry), Long.toString(entry.lastDataOffset()),
                Integer.toString(entry.coordinatorEpoch()), Long.toString(entry.currentTxnFirstOffset().orElse(-1L))))
            .collect(Collectors.joining(","));
        return log.logEndOffset() + " " + bases + " [" + epochs + "] [" + producers + "]";
    }

    private static String lastSequence(ProducerStateEntry entry) {
        return entry.batchMetadata().stream().reduce((one, next) -> next).map(b -> Integer.toString(b.lastSeq())).orElse("-1");
    }

    private static String read(long offset, int maxBytes, boolean minOneMessage) throws Exception {
        FetchDataInfo found = log.read(offset, maxBytes, FetchIsolation.LOG_END, minOneMessage);
        if (found.firstEntryIncomplete || found.records.sizeInBytes() == 0)
            return "empty";
        ByteBuffer buffer = ByteBuffer.allocate(found.records.sizeInBytes());
        ((FileRecords) found.records).readInto(buffer, 0);
        return HexFormat.of().formatHex(buffer.array());
    }

    /** Runs what is due once at once, and what is due again and again never. */
    private static class AtOnce implements Scheduler {
        public void startup() {
        }

        public void shutdown() {
        }

        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            if (periodMs < 0)
                task.run();
            return (ScheduledFuture<?>) java.lang.reflect.Proxy.newProxyInstance(
                KafkaLog.class.getClassLoader(), new Class<?>[] {ScheduledFuture.class}, (proxy, method, args) -> false);
        }

        public void resizeThreadPool(int newSize) {
        }
    }
}
