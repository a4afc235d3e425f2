import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Base64;
import java.util.Deque;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Kafka's tools one after another in this JVM: to start one for each costs more than
 * what they do. A line on stdin is the tool's own stdin, its class and its arguments, with tabs between; the
 * answer is a line "EXIT_CODE STDOUT STDERR". What a tool reads and prints is in base 64. Only for tools that
 * keep nothing in static fields.
 */
public final class Tools {
    private static final class Ended extends RuntimeException {
        private static final long serialVersionUID = 1L;
    }

    private static final Deque<Runnable> shutdownHooks = new ArrayDeque<>();
    private static int exitCode;

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Exit.setExitProcedure(Tools::end);
        Exit.setHaltProcedure(Tools::end);
        Exit.setShutdownHookAdder((name, hook) -> shutdownHooks.add(hook));
        // Set once: Scala's console keeps the stream that it finds at its first use.
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            out.reset();
            err.reset();
            String[] words = line.split("\t", -1);
            System.setIn(new ByteArrayInputStream(Base64.getDecoder().decode(words[0])));
            int code = run(words[1], Arrays.copyOfRange(words, 2, words.length));
            System.out.flush();
            System.err.flush();
            answers.println(code + " " + encoded(out) + " " + encoded(err));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    /** A tool that catches what is thrown here, and ends once more, means the first code. */
    private static void end(int code, String message) {
        if (exitCode < 0) {
            exitCode = code;
        }
        throw new Ended();
    }

    private static int run(String name, String[] arguments) throws Exception {
        exitCode = -1;
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException failed) {
            if (!(failed.getCause() instanceof Ended)) {
                failed.getCause().printStackTrace();
                exitCode = 1;
            }
        }
        runShutdownHooks();
        return Math.max(exitCode, 0);
    }

    /** Some tools close their clients in these only. */
    private static void runShutdownHooks() {
        while (!shutdownHooks.isEmpty()) {
            try {
                shutdownHooks.remove().run();
            } catch (Ended again) {
                continue;
            }
        }
    }

    private static String encoded(ByteArrayOutputStream text) {
        return "=" + Base64.getEncoder().encodeToString(text.toByteArray());
    }
}
