package volumes_test

import (
	"strings"
	"testing"

	"berth/internal/model/volume"
	"berth/internal/server/volumes"
)

// TestTheNameAtTheProviderIsOneRegistrations: given volumes of one name, when they are of other clusters or other
// registrations, then the provider gets other names; a repetition gets the same, and no name passes what plugins
// accept.
func TestTheNameAtTheProviderIsOneRegistrations(t *testing.T) {
	v := func(uid, name string) *volume.Volume {
		out := &volume.Volume{UID: uid, Spec: volume.Spec{Name: name}}
		out.ID.ID = "data"
		return out
	}
	long := strings.Repeat("n", 200)
	given := volumes.ProviderName("c1", v("u1", long))
	for text, other := range map[string]string{
		"another cluster":      volumes.ProviderName("c2", v("u1", long)),
		"another registration": volumes.ProviderName("c1", v("u2", long)),
	} {
		if other == given {
			t.Errorf("%s has the same name %q", text, given)
		}
	}
	if again := volumes.ProviderName("c1", v("u1", long)); again != given || len(given) != 128 {
		t.Errorf("the name is %q, then %q", given, again)
	}
	if name := volumes.ProviderName("c1", v("u1", "")); !strings.HasPrefix(name, "data-") {
		t.Errorf("without a name of its own it is %q", name)
	}
}
