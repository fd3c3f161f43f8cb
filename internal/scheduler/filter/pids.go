package filter

import (
	"fmt"
	"strconv"

	"berth/internal/model/job"
	"berth/internal/model/node"
)

// PIDs passes nodes that give each task of the group as many processes and threads as it asks for.
type PIDs struct{ task *job.Task }

// Prepare implements Filter.
func (p *PIDs) Prepare(r *Request) bool {
	p.task = nil
	for _, t := range r.Group.Tasks {
		if t.Resources != nil && t.Resources.PIDs > 0 &&
			(p.task == nil || t.Resources.PIDs > p.task.Resources.PIDs) {
			p.task = t
		}
	}
	return p.task != nil
}

// Check implements Filter.
func (p *PIDs) Check(n *node.Node) string {
	most, err := strconv.Atoi(n.Attributes[node.AttributeMaxPIDs])
	if err != nil || p.task.Resources.PIDs <= most {
		return "" // the node has no cap
	}
	return fmt.Sprintf("pids above the node's %d", most)
}

// Explain implements Filter.
func (p *PIDs) Explain(n *node.Node) (string, string) {
	most := n.Attributes[node.AttributeMaxPIDs]
	return fmt.Sprintf("task %q asks for %d processes and threads, the node gives a task at most %s", p.task.Name,
			p.task.Resources.PIDs, most),
		"set pids = " + most + " or less in the task's resources, or raise max_pids in the node's client block"
}
