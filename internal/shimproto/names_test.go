package shimproto

import "testing"

// Given names of processes as agents of the first version send them, then task and attempt are read from them, and what
// a later version says counts.
func TestANameIsCompleted(t *testing.T) {
	for _, c := range []struct {
		sent, want Named
	}{
		{Named{Name: "web.3"}, Named{Name: "web.3", Task: "web", Attempt: 3}},
		{Named{Name: "a.b.12"}, Named{Name: "a.b.12", Task: "a.b", Attempt: 12}},
		{Named{Name: "web"}, Named{Name: "web", Task: "web"}},
		{Named{Name: ".3"}, Named{Name: ".3", Task: ".3"}},
		{Named{Name: "web.-1"}, Named{Name: "web.-1", Task: "web.-1"}},
		{Named{Name: "web", Task: "t"}, Named{Name: "web", Task: "t"}},
		{Named{Name: "web.3", Task: "t", Attempt: 4}, Named{Name: "web.3", Task: "t", Attempt: 4}},
	} {
		got := c.sent
		if got.Complete(); got != c.want {
			t.Errorf("%+v becomes %+v, want %+v", c.sent, got, c.want)
		}
	}
}
