// Command porcupine reads a history of the kill loop from its standard input, one call a line, and
// lets the linearizability checker of that name judge each key.
//
// It shares no code and no model with the checker in Rust: that is what it is for.
//
// Prints "refused KEY" or "undecided KEY" for each key without an order that explains all answers,
// with the calls that have no place, and one line of counts. Exit code 0 if all keys were accepted,
// 1 if not, 2 if there is nothing to judge or it cannot be read.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

// shown is how many calls without a place are printed.
const shown = 5

func main() {
	patience := flag.Duration("patience", time.Minute, "how long one key may take")
	flag.Parse()
	keys, err := read(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the history cannot be read:", err)
		os.Exit(2)
	}
	if len(keys) == 0 {
		fmt.Fprintln(os.Stderr, "the history has no calls, so there is nothing to judge")
		os.Exit(2)
	}
	if !judge(keys, *patience) {
		os.Exit(1)
	}
}

func judge(keys map[uint64][]*call, patience time.Duration) bool {
	var calls, unknown int
	verdicts := map[porcupine.CheckResult]int{}
	for _, key := range sortedKeys(keys) {
		for _, c := range keys[key] {
			calls++
			if c.isUnknown() {
				unknown++
			}
		}
		history := operations(keys[key])
		verdict := porcupine.CheckOperationsTimeout(model(), history, patience)
		verdicts[verdict]++
		switch verdict {
		case porcupine.Illegal:
			fmt.Println("refused", key)
			explain(history, patience)
		case porcupine.Unknown:
			fmt.Println("undecided", key)
		}
	}
	fmt.Printf("%d keys, %d calls, %d of unknown outcome: %d accepted, %d refused, %d undecided\n",
		len(keys), calls, unknown, verdicts[porcupine.Ok], verdicts[porcupine.Illegal],
		verdicts[porcupine.Unknown])
	return verdicts[porcupine.Ok] == len(keys)
}

// explain prints how far the longest order gets and which calls have no place in it.
func explain(history []porcupine.Operation, patience time.Duration) {
	_, info := porcupine.CheckOperationsVerbose(model(), history, patience)
	var longest []porcupine.Operation
	for _, partial := range info.PartialLinearizationsOperations()[0] {
		if len(partial) > len(longest) {
			longest = partial
		}
	}
	placed := map[*call]bool{}
	for _, operation := range longest {
		placed[operation.Input.(step).call] = true
	}
	fmt.Printf("  %d of %d calls have a place; the last of them, and the first without:\n",
		len(longest), len(history))
	if len(longest) > 0 {
		fmt.Println("   ", longest[len(longest)-1].Input.(step).call)
	}
	left := shown
	for _, operation := range history {
		c := operation.Input.(step).call
		if !placed[c] && left > 0 {
			left--
			fmt.Println("   !", c)
		}
	}
}
