import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Messages by Kafka's generated classes. One line on stdin, one on stdout:
 * "decode TAB key TAB version TAB request|response TAB base64" prints the message as JSON (of records
 * only their size), "encode TAB key TAB version TAB request|response TAB JSON" prints it as base64.
 */
public final class Messages {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split("\t", 5);
            ApiMessageType type = ApiMessageType.fromApiKey(Short.parseShort(fields[1]));
            ApiMessage message = fields[3].equals("request") ? type.newRequest() : type.newResponse();
            short version = Short.parseShort(fields[2]);
            out.println(fields[0].equals("decode")
                    ? decoded(message, version, fields[4])
                    : encoded(message.getClass(), version, fields[4]));
        }
        out.flush();
    }

    private static String decoded(ApiMessage message, short version, String text) throws Exception {
        ByteBuffer bytes = ByteBuffer.wrap(Base64.getDecoder().decode(text));
        message.read(new ByteBufferAccessor(bytes), version);
        if (bytes.hasRemaining()) {
            throw new IllegalArgumentException(bytes.remaining() + " bytes are left over: " + message);
        }
        for (Method write : converter(message.getClass()).getMethods()) {
            if (write.getName().equals("write") && write.getParameterCount() == 3) {
                return MAPPER.writeValueAsString(write.invoke(null, message, version, false));
            }
        }
        throw new IllegalStateException("no converter of " + message.getClass());
    }

    private static String encoded(Class<?> kind, short version, String json) throws Exception {
        Method read = converter(kind).getMethod("read", JsonNode.class, short.class);
        ApiMessage message = (ApiMessage) read.invoke(null, MAPPER.readTree(json), version);
        ByteBuffer bytes = MessageUtil.toByteBuffer(message, version);
        byte[] taken = new byte[bytes.remaining()];
        bytes.get(taken);
        return Base64.getEncoder().encodeToString(taken);
    }

    private static Class<?> converter(Class<?> kind) throws ClassNotFoundException {
        return Class.forName(kind.getName() + "JsonConverter");
    }
}
