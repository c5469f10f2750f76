import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;

/** A search index with a cache of answers: documents come and go, queries are skewed. java Index DOCUMENTS QUERIES */
public class Index {
    /** What is known of one document. */
    record Document(int number, int[] words, String title) {}

    /** Answers that were asked for last, at most as many as said. */
    static class Cache extends LinkedHashMap<Long, int[]> {
        private final int most;

        Cache(int most) {
            super(16, 0.75f, true);
            this.most = most;
        }

        @Override
        protected boolean removeEldestEntry(Map.Entry<Long, int[]> eldest) {
            return size() > most;
        }
    }

    static final int WORDS = 40_000;
    static final int LENGTH = 60;

    final Random chance = new Random(13);
    final Map<Integer, Document> documents = new HashMap<>();
    final Map<Integer, List<Integer>> postings = new HashMap<>();
    final Cache cache = new Cache(20_000);

    /** A number below limit, small ones far more often. */
    int skewed(int limit) {
        double draw = chance.nextDouble();
        return (int) (limit * draw * draw * draw);
    }

    void add(int number) {
        int[] words = new int[LENGTH];
        StringBuilder title = new StringBuilder("document ").append(number);
        for (int i = 0; i < LENGTH; i++) {
            words[i] = skewed(WORDS);
            if (i % 20 == 0) {
                title.append(' ').append(words[i]);
            }
        }
        Arrays.sort(words);
        documents.put(number, new Document(number, words, title.toString()));
        int last = -1;
        for (int word : words) {
            if (word != last) {
                postings.computeIfAbsent(word, key -> new ArrayList<>()).add(number);
            }
            last = word;
        }
    }

    /** The first documents that have both words; postings are in order of number. */
    int[] both(int one, int other) {
        List<Integer> left = postings.getOrDefault(one, List.of());
        List<Integer> right = postings.getOrDefault(other, List.of());
        List<Integer> found = new ArrayList<>();
        for (int i = 0, j = 0; i < left.size() && j < right.size() && found.size() < 20;) {
            int order = Integer.compare(left.get(i), right.get(j));
            if (order == 0 && documents.containsKey(left.get(i))) {
                found.add(left.get(i));
            }
            i += order <= 0 ? 1 : 0;
            j += order >= 0 ? 1 : 0;
        }
        return found.stream().mapToInt(Integer::intValue).toArray();
    }

    int query() {
        int one = 50 + skewed(WORDS - 50);
        int other = 50 + skewed(WORDS - 50);
        int[] numbers = cache.computeIfAbsent((long) one * WORDS + other, key -> both(one, other));
        int length = 0;
        for (int number : numbers) {
            Document document = documents.get(number);
            if (document != null) {
                length += ("<li>" + document.title() + ": " + document.words()[LENGTH / 2] + "</li>").length();
            }
        }
        return length;
    }

    public static void main(String[] arguments) {
        int documents = Integer.parseInt(arguments[0]);
        int queries = Integer.parseInt(arguments[1]);
        Index index = new Index();
        for (int number = 0; number < documents; number++) {
            index.add(number);
        }
        long length = 0;
        for (int number = 0; number < queries; number++) {
            length += index.query();
            if (number % 40 == 0) {
                index.documents.remove(index.skewed(documents));
                index.add(documents + number / 40);
            }
        }
        System.out.println(index.documents.size() + " documents, " + length + " characters of answers");
    }
}
