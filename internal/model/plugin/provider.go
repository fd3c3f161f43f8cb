package plugin

import (
	"fmt"

	"berth/internal/base/ids"
)

// Foreign says why an instance of the provider now must not be asked about what belongs to the provider owner; empty
// when it may. An id means nothing to a second provider: what it calls deleted or unmounted is with the first for ever.
// A plugin id is only an address, so the two are told apart by the name that the instance has for its provider. What no
// provider is noted for belongs to the first that serves it.
func Foreign(id ids.Plugin, owner, now string) string {
	if owner == "" || now == "" || owner == now {
		return ""
	}
	return fmt.Sprintf("plugin %q is now served by provider %q; this volume belongs to provider %q: "+
		"run that again, or hand it over with: berth plugin rebind -provider %s %s", id, now, owner, now, id)
}

// Foreign says why the plugin, as its instances described it last, must not be asked about what belongs to owner.
func (r *Record) Foreign(owner string) string {
	if r == nil {
		return ""
	}
	return Foreign(r.ID, owner, r.Provider)
}
