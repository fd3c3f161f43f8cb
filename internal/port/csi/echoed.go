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

// revealed is an id, or what a hidden one stands for.
func (k *call) revealed(field, id, hidden string) string {
	if hidden == "" {
		return id
	}
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

// seeable refuses an id that nobody may see: nothing can be cut out of an id.
func (k *call) seeable(id string) string {
	if k.secrets.Holds(id) {
		return "an id that holds the value of a secret, so that it can be neither kept nor shown"
	}
	return ""
}

// defectOf is the defect of an answer that names what was made; one that nobody may see can be deleted all the same.
func (k *call) defectOf(id, text string) *Error {
	e := k.defect(text)
	if k.secrets.Holds(id) {
		e.HiddenID = echo.HideText(k.secrets, id)
	}
	return e
}

// condition is a volume's as it may be shown.
func (k *call) condition(answer proto.Message) *Condition {
	c := condition.Of(answer)
	if c != nil {
		c.Message = cut(clean(k.scrub(c.Message)), maxMessage)
	}
	return c
}
