package jobrules

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"berth/api"
)

// zero refuses what no program can be given, no path and no option of a mount can have: the kernel ends its texts at a
// zero byte. It would be refused by the node otherwise, once for every try.
func (c *checker) zero(at, where string, texts ...string) {
	if slices.ContainsFunc(texts, func(text string) bool { return strings.ContainsRune(text, 0) }) {
		c.addf("%s: %s contains NUL", at, where)
	}
}

// pairs refuses it in names and values that become variables of tasks.
func (c *checker) pairs(at, what string, m map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		c.zero(at, fmt.Sprintf("%s %q", what, shorten(name)), name, m[name])
	}
}

func (c *checker) texts(at string, t *api.Task) {
	c.user(at, t.User)
	c.pairs(at, "env", t.Env)
	c.pairs(at, "meta", t.Meta)
	for _, name := range slices.Sorted(maps.Keys(t.Config)) {
		each(t.Config[name], func(text string) { c.zero(at, "config."+name, text) })
	}
	for i, tm := range t.Templates {
		if tm == nil {
			continue
		}
		here := fmt.Sprintf("%s: template %d", at, i+1)
		c.zero(here, "destination", *tm.DestPath)
		if *tm.Envvars { // a file may have any byte
			c.zero(here, "data, of which variables are made,", *tm.EmbeddedTmpl)
		}
	}
	for i, vm := range t.VolumeMounts {
		if vm != nil && vm.Destination != nil {
			c.zero(at, fmt.Sprintf("volume_mount %d: destination", i), *vm.Destination)
		}
	}
	if p := t.CSIPluginConfig; p != nil {
		c.zero(at, "csi_plugin stage_publish_base_dir", p.StagePublishBaseDir)
	}
}

// maxUser is what the longest names of users have on Linux.
const maxUser = 256

// user refuses what no node can know: a user and a group are names, or numbers.
func (c *checker) user(at, text string) {
	if text == "" {
		return
	}
	if strings.ContainsRune(text, 0) {
		c.zero(at, "user", text)
		return
	}
	name, group, with := strings.Cut(text, ":")
	wrong := badUser(name)
	if wrong == "" && with {
		wrong = badUser(group)
	}
	if wrong != "" {
		c.addf("%s: user %q: %s; write a name of the node's users, a number, or both with a group, as \"app:app\" or "+
			"\"1000:1000\"", at, shorten(text), wrong)
	}
}

// badUser says why a text is neither a number nor a name that useradd would take for a user or a group, by its widest
// rules (--badname), and as directories of users spell them.
func badUser(s string) string {
	switch {
	case s == "":
		return "a part of it is empty"
	case strings.Trim(s, "0123456789") == "":
		if n, err := strconv.ParseUint(s, 10, 32); err != nil || n == math.MaxUint32 {
			return fmt.Sprintf("there is no number %s: the largest is %d", shorten(s), uint32(math.MaxUint32-1))
		}
		return ""
	case s == "." || s == ".." || s[0] == '-':
		return fmt.Sprintf("%q is no name", shorten(s))
	case len(s) > maxUser:
		return fmt.Sprintf("it has %d bytes, names have up to %d", len(s), maxUser)
	}
	for _, r := range s {
		if r == ' ' || strings.ContainsRune("/:,{}", r) || !unicode.IsPrint(r) {
			return fmt.Sprintf("character %q is not allowed", r)
		}
	}
	return ""
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
