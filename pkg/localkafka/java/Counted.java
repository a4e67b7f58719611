import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/**
 * Counted runs a Kafka broker and tells, on a port of its own, what the broker's
 * MBeans count. It needs no agent, no RMI and no second JVM, and does nothing
 * until somebody connects.
 *
 * A client writes lines "attribute pattern", then an empty line. The answer is a
 * line "attribute value name" for each MBean that matches and has a number there,
 * then the line "end".
 *
 * The arguments are the address and the port to listen on, then Kafka's own.
 */
public final class Counted {
  private Counted() {}

  public static void main(String[] args) throws Exception {
    ServerSocket listener = new ServerSocket();
    listener.bind(new InetSocketAddress(args[0], Integer.parseInt(args[1])));
    Thread thread = new Thread(() -> serve(listener), "counts");
    thread.setDaemon(true);
    thread.start();
    String[] own = Arrays.copyOfRange(args, 2, args.length);
    Class.forName("kafka.Kafka").getMethod("main", String[].class).invoke(null, (Object) own);
  }

  private static void serve(ServerSocket listener) {
    while (true) {
      try (Socket client = listener.accept()) {
        client.setSoTimeout(10_000); // one that asks nothing must not keep the others out
        answer(client);
      } catch (IOException | JMException | RuntimeException e) {
        System.err.println("counts: " + e); // the client misses the line "end"
      }
    }
  }

  private static void answer(Socket client) throws IOException, JMException {
    BufferedReader in =
        new BufferedReader(new InputStreamReader(client.getInputStream(), StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(client.getOutputStream(), false, StandardCharsets.UTF_8);
    MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
    for (String line = in.readLine(); line != null && !line.isEmpty(); line = in.readLine()) {
      String[] asked = line.split(" ", 2);
      for (ObjectName name : beans.queryNames(new ObjectName(asked[1]), null)) {
        Object value;
        try {
          value = beans.getAttribute(name, asked[0]);
        } catch (JMException | RuntimeException e) {
          continue; // it has gone since, or has no such attribute
        }
        if (value instanceof Number) {
          out.print(asked[0] + " " + ((Number) value).doubleValue() + " " + name + "\n");
        }
      }
    }
    out.print("end\n");
    out.flush();
  }
}
