package devicerules

import (
	"strings"
	"testing"

	"berth/api"
)

// Given requests for devices of which one thing is wrong each, when they are judged, then that is said, with the way
// out, and of those that are right nothing.
func TestWhatIsWrongWithARequestIsSaid(t *testing.T) {
	must := func(left, right string) func(*api.RequestedDevice) {
		return func(d *api.RequestedDevice) {
			d.Constraints = []*api.Constraint{{LTarget: left, Operand: "=", RTarget: right}}
		}
	}
	for say, change := range map[string]func(*api.RequestedDevice){
		"":                           must("${device.attr.memory}", "${device.attr.least}"),
		"its name is":                func(d *api.RequestedDevice) { d.Name = "nvidia/" },
		"between 1 and 1024, is 0":   func(d *api.RequestedDevice) { d.Count = new(uint64(0)) },
		"is 18446744073709551615":    func(d *api.RequestedDevice) { d.Count = new(^uint64(0)) },
		"65 constraints":             func(d *api.RequestedDevice) { d.Constraints = make([]*api.Constraint, 65) },
		`"${attr.memory}" says`:      must("${attr.memory}", "1"),
		`"${device.attr.}" says`:     must("${device.attr.}", "1"),
		`value "${node.class}" says`: must("${device.model}", "${node.class}"),
	} {
		d := &api.RequestedDevice{Name: "nvidia/gpu", Count: new(uint64(2))}
		change(d)
		out, _ := Problems(d)
		if all := strings.Join(out, "; "); say == "" && all != "" || !strings.Contains(all, say) {
			t.Errorf("it does not say %q: %s", say, all)
		}
	}
}
