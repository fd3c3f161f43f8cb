package validate

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/model/node"
	"berth/internal/model/taskconfig"
	"berth/internal/server/state"
)

// fleet is what the ready nodes of a snapshot take in the config of a task, by driver: what differs, once. A job with a
// thousand tasks asks each node once for each driver.
type fleet struct {
	s     *state.Snap
	taken map[string][]taskconfig.Schema
}

// takes lists what keeps every ready node with the driver from taking a config. Where there is none, or one that does
// not say, nothing is refused.
func (f fleet) takes(driver string, config map[string]any) []error {
	known := f.schemasOf(driver)
	var errs []error
	var reasons []string
	for _, s := range known {
		err := s.Check(driver, config)
		if err == nil {
			return nil
		}
		errs = Each(err)
		var texts []string
		for _, one := range errs {
			texts = append(texts, one.Error())
		}
		reasons = append(reasons, strings.Join(texts, "; "))
	}
	slices.Sort(reasons)
	if reasons = slices.Compact(reasons); len(reasons) < 2 {
		return errs
	}
	return []error{fault.Wrap(errors.New(strings.Join(reasons, "; and on other nodes: ")), fault.Invalid, "", "")}
}

// schemasOf is what the ready nodes with a driver take: what differs, once.
func (f fleet) schemasOf(driver string) []taskconfig.Schema {
	known, asked := f.taken[driver]
	if !asked {
		known = f.schemas(driver)
		f.taken[driver] = known
	}
	return known
}

// denies tells whether every ready node with a driver says that no task runs as a user, and that there is one.
func (f fleet) denies(driver, user string) bool {
	name, _, _ := strings.Cut(user, ":")
	asked := false
	for n := range readyWith(f.s, driver) {
		denied := strings.Split(attribute(n, driver, node.DeniedUsers(driver)), ",")
		if name == "" || !slices.Contains(denied, name) &&
			!numbered(attribute(n, driver, node.DeniedUIDs(driver)), name) {
			return false
		}
		asked = true
	}
	return asked
}

// numbered tells whether a text is a number that is in a list of numbers and ranges.
func numbered(list, text string) bool {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return false
	}
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 32)
		to, bad := strconv.ParseUint(last, 10, 32)
		if err == nil && bad == nil && from <= n && n <= to {
			return true
		}
	}
	return false
}

// schemas are the different ones among the ready nodes with a driver. Nodes of an older Berth name the options alone.
func (f fleet) schemas(driver string) (all []taskconfig.Schema) {
	for n := range readyWith(f.s, driver) {
		s := n.Drivers[driver].Options
		if len(s) == 0 {
			list := attribute(n, driver, node.DriverOptions(driver))
			if list == "" {
				return nil
			}
			s = taskconfig.Named(strings.Split(list, ","))
		}
		if !slices.ContainsFunc(all, s.Equal) {
			all = append(all, s)
		}
	}
	return all
}
