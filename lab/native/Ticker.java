// A scheduled task each 50 ms over 120,000 entries of a map. Prints how long each took, in ns.
import java.util.HashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

public class Ticker {
    private static final int ENTRIES = 120_000;

    public static void main(String[] arguments) throws InterruptedException {
        int rounds = Integer.parseInt(arguments[0]);
        HashMap<Integer, String> entries = new HashMap<>();
        for (int i = 0; i < ENTRIES; i++) {
            entries.put(i, "entry number " + i);
        }
        long[] took = new long[rounds];
        var latch = new CountDownLatch(rounds);
        var executor = Executors.newSingleThreadScheduledExecutor();
        executor.scheduleAtFixedRate(() -> {
            int round = rounds - (int) latch.getCount();
            if (round >= rounds) {
                return;
            }
            long began = System.nanoTime();
            long state = round + 1, length = 0;
            for (int i = 0; i < 10_000; i++) {
                state = state * 6364136223846793005L + 1442695040888963407L;
                int draw = (int) (state >>> 33);
                length += entries.get(draw % 5 == 0 ? (draw >>> 3) % ENTRIES : (draw >>> 3) % (ENTRIES / 10)).length();
            }
            took[round] = System.nanoTime() - began + (length < 0 ? 1 : 0);
            latch.countDown();
        }, 50, 50, TimeUnit.MILLISECONDS);
        latch.await();
        executor.shutdown();
        for (long ns : took) {
            System.out.println(ns);
        }
    }
}
