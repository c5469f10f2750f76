// Counts made words in two goroutines, merges the counts, and sorts the words by them.
package main

import (
	"fmt"
	"os"
	"sort"
	"strconv"
)

const words = 300000

func count(seed uint64, draws int) map[string]int {
	counts := map[string]int{}
	state := seed
	for i := 0; i < draws; i++ {
		state = state*6364136223846793005 + 1442695040888963407
		share := float64(state>>33) / (1 << 31)
		counts["word-"+strconv.Itoa(int(share*share*words))+"-of-the-text"]++
	}
	return counts
}

func main() {
	draws, _ := strconv.Atoi(os.Args[1])
	parts := make(chan map[string]int)
	for seed := uint64(1); seed <= 2; seed++ {
		go func() { parts <- count(seed, draws/2) }()
	}
	total := <-parts
	for word, times := range <-parts {
		total[word] += times
	}
	names := make([]string, 0, len(total))
	for word := range total {
		names = append(names, word)
	}
	sort.Slice(names, func(a, b int) bool {
		return total[names[a]] > total[names[b]] || total[names[a]] == total[names[b]] && names[a] < names[b]
	})
	fmt.Println(len(names), names[0])
}
