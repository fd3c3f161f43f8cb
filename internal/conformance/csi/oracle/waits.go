package oracle

import (
	"strings"
	"time"

	"berth/internal/conformance/csi/proxy"
)

const defaultRelease = 5 * time.Second

// waits judges what people are shown: invariant I16 that it says for whom and why, invariant I24 that it ends.
type waits struct {
	reported  map[string]bool      // what was, so that it is reported once
	disturbed map[string]time.Time // volumes whose calls a fault has changed, and when last; "": all volumes
}

func newWaits() *waits { return &waits{reported: map[string]bool{}, disturbed: map[string]time.Time{}} }

func (k *waits) shown(w *world, s Shown) {
	at := moment(s.At, s.What+" is "+s.State, "")
	at.Volume = s.Volume
	say := func(inv, format string, args ...any) {
		if key := inv + s.What + format; !k.reported[key] {
			k.reported[key] = true
			w.violate(inv, at, format, args...)
		}
	}
	switch {
	case s.Owner == "":
		say("I16", "the %s names nobody that it is for", s.What)
	case len(s.Missing) > 0:
		say("I16", "the %s refers to what does not exist: %s", s.What, strings.Join(s.Missing, ", "))
	case s.State == "" || s.Since.IsZero():
		say("I16", "the %s does not say in which state it is since when", s.What)
	case s.Tries > 0 && (s.Last == "" || s.Next.IsZero()):
		say("I16", "the %s has failed %d times and does not say how, or when it is tried again", s.What, s.Tries)
	}
	limit := w.facts.Release
	if limit == 0 {
		limit = defaultRelease
	}
	if s.Passing && s.Reason == "" && s.At.Sub(s.Since) > limit { // all the more while something holds it up
		say("I24", "the %s has been %s for longer than %s and names nothing that it waits for", s.What, s.State, limit)
	}
	if !s.Passing || s.Free.IsZero() || s.At.Sub(s.Free) <= limit {
		return
	}
	if s.Free.After(k.disturbed[s.Volume]) && s.Free.After(k.disturbed[""]) && !w.inFlight(s.Volume) {
		say("I24", "the %s is still %s %s after nothing held it up any more, without a fault", s.What, s.State,
			s.At.Sub(s.Free))
	}
}

// inFlight reports whether a call of a volume is under way: the plugin's own time does not count.
func (w *world) inFlight(volume string) bool {
	for _, c := range w.open {
		if c.Volume == volume {
			return true
		}
	}
	return false
}

func (k *waits) begin(*world, *call) {}

func (k *waits) end(_ *world, c *call) {
	if c.Injected != "" || !c.ok() {
		k.disturbed[c.Volume] = c.Time
	}
}

func (k *waits) mark(_ *world, e proxy.Entry) { k.disturbed[e.Volume] = e.Time }

// hangs judges invariant I15: a call that hangs delays nothing but its own volume.
type hangs struct{ spans []span }

// span is a call of a volume in flight.
type span struct {
	volume, rpc string
	from, to    time.Time
}

func (h *hangs) begin(*world, *call) {}

func (h *hangs) end(_ *world, c *call) {
	h.spans = append(h.spans, span{c.Volume, c.RPC, c.begun, c.Time})
}

func (h *hangs) mark(*world, proxy.Entry) {}

// done judges work that has ended: it may not have taken longer than its limit while a call of another volume hung and
// none of its own did.
func (h *hangs) done(w *world, k Work) {
	took := k.To.Sub(k.From)
	if took <= k.Limit {
		return
	}
	spans := h.spans
	for _, c := range w.open {
		spans = append(spans, span{c.Volume, c.RPC, c.begun, k.To})
	}
	var own time.Duration
	var other *span
	for _, s := range spans {
		length := clip(s.to, k.To).Sub(later(s.from, k.From))
		switch {
		case length <= 0:
		case k.Volume != "" && s.volume == k.Volume:
			own += length
		case length > k.Limit/2:
			other = &s
		}
	}
	if other != nil && took-own > k.Limit {
		w.violate("I15", moment(k.To, k.What, ""), "%s took %s while %s of volume %q hung", k.What, took, other.rpc,
			other.volume)
	}
}

func clip(a, b time.Time) time.Time {
	if a.After(b) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
