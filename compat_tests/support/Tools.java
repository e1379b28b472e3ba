import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileInputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import java.util.Base64;

import org.apache.kafka.common.utils.Exit;

/** Runs Kafka's tools one after the other in one JVM: a line is a class and its arguments, separated by tabs. */
public class Tools {
    /** Ends a tool in place of its process. */
    private static final class Ended extends Error {
        Ended() {
            super("exit", null, false, false);
        }
    }

    private static final ByteArrayOutputStream OUT = new ByteArrayOutputStream();
    private static final ByteArrayOutputStream ERR = new ByteArrayOutputStream();
    /** The exit code and the output of a tool at its end; null while it runs. */
    private static volatile String ended = "";

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        // One stream for all tools, because Scala's console keeps the first stream.
        System.setOut(new PrintStream(OUT, true));
        System.setErr(new PrintStream(ERR, true));
        Exit.setExitProcedure((code, message) -> {
            end(Integer.toString(code));
            throw new Ended();
        });
        // Some tools end the JVM, and so this program.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            if (ended == null) {
                end("ended");
                answers.println(ended);
            }
        }));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            OUT.reset();
            ERR.reset();
            ended = null;
            run(line.split("\t"));
            answers.println(ended);
        }
    }

    private static void run(String[] words) throws Exception {
        // As in a shell: the last two words may be "<" and a file.
        boolean hasInput = words.length > 2 && words[words.length - 2].equals("<");
        String[] rest = Arrays.copyOfRange(words, 1, hasInput ? words.length - 2 : words.length);
        InputStream commands = System.in;
        if (hasInput) {
            System.setIn(new FileInputStream(words[words.length - 1]));
        }
        try {
            Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) rest);
            end("0");
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended)) {
                System.err.print("Exception in thread \"main\" ");
                thrown.getCause().printStackTrace();
            }
            end("1");
        } finally {
            System.setIn(commands);
        }
    }

    /** Only the first end counts, because a tool may catch the error that stands for its end. */
    private static void end(String code) {
        if (ended == null) {
            System.out.flush();
            System.err.flush();
            Base64.Encoder encoder = Base64.getEncoder();
            ended = code + "\t" + encoder.encodeToString(OUT.toByteArray()) + "\t" + encoder.encodeToString(ERR.toByteArray());
        }
    }
}
