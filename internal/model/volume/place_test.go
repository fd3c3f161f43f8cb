package volume

import (
	"strings"
	"testing"

	"berth/internal/model/plugin"
)

// TestWhereAVolumeWasMadeIsHeldAgainstWhereItWasRequired: a part of a required place, or a place that includes one, is
// right; any other is named.
func TestWhereAVolumeWasMadeIsHeldAgainstWhereItWasRequired(t *testing.T) {
	at := func(segments ...string) plugin.Topology {
		out := plugin.Topology{Segments: map[string]string{}}
		for _, s := range segments {
			key, value, _ := strings.Cut(s, "=")
			out.Segments[key] = value
		}
		return out
	}
	required := []plugin.Topology{at("zone=a", "rack=1"), at("zone=b")}
	for name, c := range map[string]struct {
		required, answered []plugin.Topology
		wrong              bool
	}{
		"equal":                 {required, []plugin.Topology{at("zone=a", "rack=1")}, false},
		"keys without case":     {required, []plugin.Topology{at("Zone=b")}, false},
		"a part of it":          {required, []plugin.Topology{at("zone=b", "rack=7")}, false},
		"a place around it":     {required, []plugin.Topology{at("zone=a")}, false},
		"one of several":        {required, []plugin.Topology{at("zone=c"), at("zone=b")}, false},
		"nothing required":      {nil, []plugin.Topology{at("zone=c")}, false},
		"nothing answered":      {required, nil, false},
		"another place":         {required, []plugin.Topology{at("zone=c")}, true},
		"another part":          {required, []plugin.Topology{at("zone=a", "rack=2")}, true},
		"a place of other keys": {required, []plugin.Topology{at("host=h")}, true},
	} {
		if got := Elsewhere(c.required, c.answered); (got != "") != c.wrong {
			t.Errorf("%s: %q", name, got)
		}
	}
	got := Elsewhere(required, []plugin.Topology{at("zone=c", "rack=2")})
	if !strings.Contains(got, "accessible from rack=2,zone=c; required is rack=1,zone=a or zone=b") {
		t.Errorf("got %q", got)
	}
}
