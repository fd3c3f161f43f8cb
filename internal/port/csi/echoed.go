package csi

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"berth/internal/port/csi/condition"
	"berth/internal/port/csi/echo"
)

// handBack is the context of an earlier answer as the plugin gave it, for a request.
func (k *call) handBack(field string, context map[string]string) map[string]string {
	out, missing := echo.Reveal(k.secrets, context)
	if len(missing) > 0 {
		k.invalid("the " + field + " refers to secrets that the volume no longer has: " + strings.Join(missing, ", ") +
			"; register the volume again with them")
	}
	k.stringMap(field, out)
	return out
}

// revealed is the id that a hidden one stands for.
func (k *call) revealed(field, hidden string) string {
	out, missing := echo.RevealText(k.secrets, hidden)
	if len(missing) > 0 {
		k.invalid("the " + field + " refers to secrets that the volume no longer has: " + strings.Join(missing, ", "))
	}
	return out
}

// keep is a context of an answer as it may be kept and shown.
func (k *call) keep(context map[string]string) map[string]string {
	return echo.Hide(k.secrets, context)
}

// shown is a context of a list, which nobody hands back.
func (k *call) shown(context map[string]string) map[string]string {
	for name, value := range context {
		delete(context, name)
		context[k.scrub(name)] = k.scrub(value)
	}
	return context
}

// listed is an id of a list, which nobody asked for: of one that holds what some call has sent nothing is shown that
// could be taken for an id.
func (k *call) listed(id string) string {
	if !k.c.sent.Holds(id) {
		return id
	}
	return k.scrub(id)
}

// seeable refuses ids that nobody may see: nothing can be cut out of an id.
func (k *call) seeable(ids ...string) string {
	for _, id := range ids {
		if k.secrets.Holds(id) {
			return "an id that holds the value of a secret, so that it can be neither kept nor shown"
		}
	}
	return ""
}

// condition is a volume's as it may be shown.
func (k *call) condition(answer proto.Message) *Condition {
	c := condition.Of(answer)
	if c != nil {
		c.Message = cut(clean(k.scrub(c.Message)), maxMessage)
	}
	return c
}
