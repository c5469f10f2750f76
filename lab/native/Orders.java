// Orders of customers in a hash map, drawn and read by a power law; every other round a seventh of the customers leaves.
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Random;

public class Orders {
    private record Order(long number, double amount, String note) {}

    private static final int CUSTOMERS = 50_000;

    public static void main(String[] arguments) {
        int orders = Integer.parseInt(arguments[0]), rounds = Integer.parseInt(arguments[1]);
        var chance = new Random(42);
        var customers = new HashMap<Integer, List<Order>>();
        long number = 0;
        double sum = 0;
        for (int round = 0; round < rounds; round++) {
            for (int i = 0; i < orders; i++) {
                int customer = (int) (Math.pow(chance.nextDouble(), 2) * CUSTOMERS);
                var order = new Order(number++, chance.nextDouble() * 100, "note " + number % 1000);
                customers.computeIfAbsent(customer, none -> new ArrayList<>()).add(order);
            }
            for (int i = 0; i < orders * 4; i++) {
                List<Order> list = customers.get((int) (Math.pow(chance.nextDouble(), 3) * CUSTOMERS));
                if (list != null) {
                    var order = list.get(chance.nextInt(list.size()));
                    sum += order.amount() + order.note().length();
                }
            }
            if (round % 2 == 1) {
                customers.values().removeIf(list -> list.get(0).number() % 7 == 0);
            }
        }
        System.out.printf("%d %.6f%n", number, sum);
    }
}
