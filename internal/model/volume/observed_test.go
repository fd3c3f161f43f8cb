package volume

import (
	"strings"
	"testing"
)

// TestWhatAListSaysBeyondTheRecord: what is listed as it is recorded says nothing.
func TestWhatAListSaysBeyondTheRecord(t *testing.T) {
	attached := []*Attachment{{StorageNode: "n1"}}
	for name, c := range map[string]struct {
		listed *Listed
		want   string
	}{
		"as it is recorded": {&Listed{Nodes: []string{"n1"}, NodesKnown: true}, ""},
		"not published yet": {&Listed{NodesKnown: true}, ""},
		"missing":           {nil, "does not list it any more"},
		"elsewhere": {&Listed{Nodes: []string{"n2", "n1"}, NodesKnown: true},
			`published to node "n2"`},
		"elsewhere, without meaning": {&Listed{Nodes: []string{"n2"}}, ""},
		"abnormal":                   {&Listed{Abnormal: true, Message: "two disks"}, "abnormal: two disks"},
		"abnormal, in silence":       {&Listed{Abnormal: true}, "abnormal: without a reason"},
		"well, with a message":       {&Listed{Message: "fine"}, ""},
	} {
		o := Observe(attached, c.listed)
		got := strings.Join(Describe(Story{Volume: &Volume{Status: Status{Observed: o}}}), "; ")
		if (o == nil) != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %+v, %q", name, o, got)
		}
	}
}
