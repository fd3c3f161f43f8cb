package validate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/model/container"
	"berth/internal/model/job"
	"berth/internal/model/node"
)

// wish is what a task asks for that an agent has to allow.
type wish struct {
	field, value string
	option       string // of the agent's configuration
	element      string // of the option's list; empty: the option is allowed or not
	setting      string // of the agent's configuration; empty: the option itself
	why          string // it has to be allowed
}

// wishes are those of a task. What is put in the place of ${…} only nodes know. A storage plugin that may act on its
// node has the rest with that.
func (f fleet) wishes(t *job.Task) (out []wish) {
	if t.Driver == container.Driver {
		out = f.ofContainer(t)
	}
	if p := t.CSIPluginConfig; p != nil && p.NodeRole() {
		w := wish{field: "csi_plugin", value: "type " + strconv.Quote(p.Type), option: node.PermitCSINode}
		if t.Driver == container.Driver {
			w.setting = container.Privileged.Setting
		}
		return append(out, w)
	}
	for _, m := range [][2]string{{"pid_mode", node.PermitHostPID}, {"ipc_mode", node.PermitHostIPC}} {
		if t.Config[m[0]] == "host" && t.Driver != container.Driver {
			out = append(out, wish{field: "config." + m[0], value: `"host"`, option: m[1]})
		}
	}
	caps, _ := t.Config["cap_add"].([]any) // of another type it is refused by what the driver takes
	for _, c := range caps {
		name, _ := c.(string)
		plain := strings.TrimPrefix(strings.ToLower(name), "cap_")
		if plain == "" || plain == "all" || strings.Contains(plain, "${") { // all are those that are allowed
			continue
		}
		out = append(out, wish{
			field:   "config.cap_add",
			value:   "capability " + strconv.Quote(name),
			option:  node.PermitCaps,
			element: plain,
		})
	}
	return out
}

// ofContainer are the wishes that a config of the driver docker has beside. The node part of a storage plugin has what
// makes root of the node with that.
func (f fleet) ofContainer(t *job.Task) (out []wish) {
	known := f.schemasOf(t.Driver)
	if len(known) == 0 {
		return nil
	}
	o := known[0].Form(t.Driver, t.Config)
	for _, n := range container.Submitted(o) {
		if p := t.CSIPluginConfig; p != nil && p.NodeRole() && n.Of == container.Privileged {
			continue
		}
		out = append(out, wish{
			field:   n.Field,
			value:   "what it asks for",
			option:  n.Of.Attribute,
			setting: n.Of.Setting,
			why:     n.Why,
		})
	}
	if name := o.Text("runtime"); name != "" && !strings.Contains(name, "${") {
		out = append(out, wish{
			field:   "config.runtime",
			value:   "runtime " + strconv.Quote(name),
			option:  container.Runtimes,
			element: name,
			setting: "allow_runtimes",
			why:     "it is not in the list, or the daemon does not have it",
		})
	}
	return out
}

// unpermitted refuses what no ready node with the driver allows a task. Where there is none, or one that does not say,
// nothing is refused.
func (f fleet) unpermitted(t *job.Task) (errs []error) {
	asked := f.wishes(t)
	if len(asked) == 0 {
		return nil
	}
	var names []string
	allowed := map[string][]string{} // by option: what one of the nodes has
	for n := range readyWith(f.s, t.Driver) {
		if attribute(n, t.Driver, node.Permission(t.Driver, node.PermitCaps)) == "" {
			return nil
		}
		names = append(names, n.Name)
		for _, w := range asked {
			list := attribute(n, t.Driver, node.Permission(t.Driver, w.option))
			allowed[w.option] = append(allowed[w.option], strings.Split(list, ",")...)
		}
	}
	if len(names) == 0 {
		return nil
	}
	for _, w := range asked {
		if has := allowed[w.option]; !w.among(has) {
			what := fmt.Sprintf("%s is allowed by no ready node with the driver %q (%s)", w.value, t.Driver,
				some(names))
			if w.why != "" {
				what += ": " + w.why
			}
			errs = append(errs, fault.WithHint(fault.New(fault.Invalid, "", w.field, what), w.wayOut(t.Driver, has)))
		}
	}
	return errs
}

func (w wish) among(has []string) bool {
	if w.element == "" {
		return slices.Contains(has, "1")
	}
	return slices.Contains(has, w.element) || slices.Contains(has, "all")
}

func (w wish) wayOut(driver string, has []string) string {
	block := "in the config of their plugin " + strconv.Quote(driver) + " block"
	if w.element != "" {
		slices.Sort(has)
		return "they allow " + strings.Join(slices.Compact(has), ", ") + "; who runs the agents allows more by " +
			cmp.Or(w.setting, w.option) + " " + block
	}
	allow := "who runs the agents allows it by " + cmp.Or(w.setting, w.option+" = true") + " " + block
	if w.field == "csi_plugin" { // it is nothing without
		return allow
	}
	return "leave it out; " + allow
}

// some names a few of many.
func some(names []string) string {
	const few = 3
	slices.Sort(names)
	if len(names) > few {
		return strings.Join(names[:few], ", ") + " and " + strconv.Itoa(len(names)-few) + " more"
	}
	return strings.Join(names, ", ")
}
