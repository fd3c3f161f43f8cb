package gauges

import (
	"strings"
	"testing"

	"berth/internal/testkit/reference"
)

// Given the helps, then the page of metrics has each name with its help, and no other name. That the agent has no other
// metric is tested with the program.
func TestThePageOfMetricsIsWhole(t *testing.T) {
	p := reference.Open(t, "reference/metrics.md")
	var said, there []string
	for _, row := range p.Rows() {
		said = append(said, reference.Plain(row[0])+": "+reference.Plain(row[2]))
	}
	for _, h := range helps {
		name := strings.ReplaceAll(h.name, ".", "_")
		if strings.HasSuffix(h.name, ".") {
			name += "*"
		}
		there = append(there, name+": "+h.text)
	}
	p.Same("a metric", said, there)
}
