package initstage

import (
	"slices"
	"testing"

	"berth/internal/shimproto"
)

// The node's secrets are hidden in directories that the agent shows, but not what it shows by name.
func TestWhatIsShownByNameIsNotHidden(t *testing.T) {
	for name, test := range map[string]struct {
		etc     []string
		hides   []string
		reveals []string
	}{
		"nothing":       {nil, []string{"/etc/shadow", "/etc/ssl/private", "/etc/berth"}, nil},
		"a directory":   {[]string{"ssl", "ssl2/private"}, []string{"/etc/ssl/private"}, nil},
		"a key by name": {[]string{"ssl/private/app.pem"}, []string{"/etc/berth"}, []string{"/etc/ssl/private"}},
		"a name alike":  {[]string{"ssl/private2", "berth.db"}, []string{"/etc/ssl/private", "/etc/berth"}, nil},
	} {
		r := &root{iso: &shimproto.Isolate{Etc: test.etc}}
		got := r.hides()
		for _, p := range test.hides {
			if !slices.Contains(got, p) {
				t.Errorf("%s: %s is not hidden", name, p)
			}
		}
		for _, p := range test.reveals {
			if slices.Contains(got, p) {
				t.Errorf("%s: %s is hidden", name, p)
			}
		}
	}
}
