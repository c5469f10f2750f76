// A ticker each 50 ms over a map of 150,000 entries. Prints how long each tick's work took, in ns.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

const entries = 150000

func main() {
	rounds, _ := strconv.Atoi(os.Args[1])
	table := make(map[int][]byte, entries)
	for i := 0; i < entries; i++ {
		table[i] = make([]byte, 100)
	}
	took := make([]int64, 0, rounds)
	ticker := time.NewTicker(50 * time.Millisecond)
	sum := 0
	for round := 0; round < rounds; round++ {
		<-ticker.C
		began := time.Now()
		state := uint64(round + 1)
		for i := 0; i < 20000; i++ {
			state = state*6364136223846793005 + 1442695040888963407
			draw := int(state >> 33)
			key := (draw >> 3) % (entries / 10)
			if draw%5 == 0 {
				key = (draw >> 3) % entries
			}
			value := table[key]
			value[round%100]++
			sum += len(value)
		}
		took = append(took, time.Since(began).Nanoseconds())
	}
	for _, ns := range took {
		fmt.Println(ns)
	}
	if sum == 0 {
		os.Exit(1)
	}
}
