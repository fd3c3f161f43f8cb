package follow

import (
	"fmt"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/cli/kit"
)

// Waits tells what allocations of a node wait for, each reason once: what a node lacks meets many of them.
func Waits(p *kit.Printer, list []*api.Allocation, verbose bool) {
	var reasons []string
	who := map[string][]string{}
	for _, a := range list {
		if a.Standing == nil || a.Standing.Waits == "" {
			continue
		}
		// A reason may name its allocation, and is the same as another's all the same.
		why := strings.ReplaceAll(a.Standing.Waits, "allocation "+kit.ID(a.ID, false), "the allocation")
		if who[why] == nil {
			reasons = append(reasons, why)
		}
		who[why] = append(who[why], kit.ID(a.ID, verbose))
	}
	if len(reasons) == 0 {
		return
	}
	slices.Sort(reasons)
	p.Section("Waiting")
	for _, why := range reasons {
		one := fmt.Sprintf("Allocation %q", who[why][0])
		switch more := len(who[why]) - 1; {
		case more == 1:
			one += " and 1 other"
		case more > 1:
			one += fmt.Sprintf(" and %d others", more)
		}
		p.Printf("%s: %s\n", one, kit.OneSentence(why))
	}
}
