package validate

import (
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/consul"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/testkit/localstate"
)

// TestAProxyThatNoNodeCanRunIsRefusedWithWhatIsMissing: as long as there is a node that knows, and until one has it.
func TestAProxyThatNoNodeCanRunIsRefusedWithWhatIsMissing(t *testing.T) {
	for attribute, says := range map[string]string{
		consul.AttributeProgram: "Consul's own program",
		consul.AttributeEnvoy:   "has Envoy",
		consul.AttributeGRPC:    "grpc = 8502",
	} {
		c := localstate.New(t)
		proxy := &job.Task{
			Name:        "p",
			Driver:      "d",
			Kind:        "connect-proxy:web",
			Constraints: []*job.Constraint{{LTarget: "${attr." + attribute + "}", Operand: "is_set"}},
		}
		g := &job.TaskGroup{Name: "g", Tasks: []*job.Task{proxy}}
		j := &job.Job{Namespace: ids.DefaultNamespace, ID: "j", TaskGroups: []*job.TaskGroup{g}}
		wrong := func() string {
			if err := equipped(c.Store.Snapshot(), j, g, proxy); err != nil {
				return err.Error()
			}
			return ""
		}
		node := func(id ids.Node, attributes map[string]string) {
			c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: id, Status: node.StatusReady, Attributes: attributes}})
		}
		node("11111111-0000-4000-8000-000000000001", nil)
		if got := wrong(); got != "" {
			t.Errorf("without a node that has Consul: %s", got)
		}
		node("11111111-0000-4000-8000-000000000002", map[string]string{"consul.version": "1"})
		if got := wrong(); !strings.Contains(got, says) {
			t.Errorf("it says %q, want %q", got, says)
		}
		node("11111111-0000-4000-8000-000000000003", map[string]string{"consul.version": "1", attribute: "x"})
		if got := wrong(); got != "" {
			t.Errorf("with a node that has it: %s", got)
		}
	}
}
