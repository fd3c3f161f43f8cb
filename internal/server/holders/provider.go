package holders

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/server/instances"
	"berth/internal/server/state"
)

// Serves refuses a provider that does not serve a plugin now, or not alone: all healthy instances must name it.
func Serves(s *state.Snap, id ids.Plugin, provider string) error {
	refuse := func(text string) error {
		return fault.WithHint(fault.New(fault.Conflict, "rebind", fmt.Sprintf("plugin %q", id), text),
			"run the provider that the volumes are to have, then look at: berth plugin status "+string(id))
	}
	names := map[string]bool{}
	for _, i := range instances.Of(s, nil, id) {
		if i.Healthy() {
			names[i.Provider] = true
		}
	}
	rec := s.Plugin(nil, id)
	switch {
	case provider == "":
		return refuse("the provider has no name")
	case len(names) == 0 || rec == nil:
		return refuse("no healthy instance says which provider serves it")
	case len(names) > 1:
		return refuse("its instances are of several providers: " + strings.Join(slices.Sorted(maps.Keys(names)), ", "))
	case !names[provider] || rec.Provider != provider:
		return refuse(fmt.Sprintf("it is served by provider %q, not %q", rec.Provider, provider))
	}
	return nil
}

// Owners are the providers that have something of a plugin: volumes, snapshots, or what stays of volumes that were
// forgotten by force. An empty name is that of what none is noted for.
func Owners(s *state.Snap, id ids.Plugin) []string {
	found := map[string]bool{}
	for v := range s.VolumesByPlugin(nil, id) {
		found[v.Status.Provider] = true
	}
	for sn := range s.VolumeSnapshots(nil) {
		if sn.Plugin == id {
			found[sn.Provider] = true
		}
	}
	for t := range s.Tombstones(nil) {
		if t.Plugin == id {
			found[t.Provider] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
