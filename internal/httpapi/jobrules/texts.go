package jobrules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/api"
)

// texts refuses what no program can be given: the kernel ends its texts at a zero byte. It would be refused by the node
// otherwise, once for every try.
func (c *checker) texts(at string, t *api.Task) {
	zero := func(where, text string) {
		if strings.ContainsRune(text, 0) {
			c.addf("%s: %s contains NUL", at, where)
		}
	}
	zero("user", t.User)
	for _, name := range slices.Sorted(maps.Keys(t.Env)) {
		zero(fmt.Sprintf("env %q", shorten(name)), name+t.Env[name])
	}
	for _, name := range slices.Sorted(maps.Keys(t.Config)) {
		each(t.Config[name], func(text string) { zero("config."+name, text) })
	}
}

// each calls do with every text of a value of a driver's configuration.
func each(value any, do func(string)) {
	switch v := value.(type) {
	case string:
		do(v)
	case []any:
		for _, e := range v {
			each(e, do)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			do(name)
			each(v[name], do)
		}
	}
}
