// Package services owns the commands about services that are found.
package services

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

// Noun is the noun with its verbs.
func Noun(e *kit.Env) *kit.Command {
	return kit.Noun("service", "See who is found under the names of services", newList(e), newInfo(e), newDelete(e))
}

func newList(e *kit.Env) *kit.Command {
	var formats kit.Formats
	cmd := &kit.Command{
		Use:   "list [flags]",
		Short: "List the services that are found",
		Long: `Lists the names of services with an instance that is found now, with the tags that any instance has. A
service is found while its allocation is to run and its task runs; with -namespace '*' those of all namespaces are
listed.`,
		Example: `  berth service list
  berth service list -namespace '*'`,
		Run: func(ctx context.Context, _ []string) error {
			list, _, err := e.Client().Services().List(ctx, nil)
			return formats.Show(e.Out, list, kit.Doing(err, "list", "services", ""), func() { showNames(e, list) })
		},
	}
	return formats.AddTo(cmd)
}

func showNames(e *kit.Env, list []*api.ServiceRegistrationListStub) {
	header := []string{"Service Name", "Tags"}
	if e.AllNamespaces() {
		header = []string{"Service Name", "Namespace", "Tags"}
	}
	var lines [][]string
	for _, of := range list {
		for _, s := range of.Services {
			line := []string{s.ServiceName, "[" + strings.Join(s.Tags, ",") + "]"}
			if e.AllNamespaces() {
				line = slices.Insert(line, 1, of.Namespace)
			}
			lines = append(lines, line)
		}
	}
	kit.List(e.Out, lines, "services", header, func(line []string) []string { return line })
}

func newInfo(e *kit.Env) *kit.Command {
	var formats kit.Formats
	var page kit.Page
	verbose := false
	cmd := &kit.Command{
		Use:   "info [flags] <service>",
		Short: "Show who is found under the name of a service",
		Long: `Shows the instances of a service that the servers tell of, and where there are none those that are to be
found in Consul: of each its node says whether it is registered there, with which tags, since when, and why not. Of a
gateway it says, too, when Consul has yet to hear what it does, and why.`,
		Example: `  berth service info web
  berth service info -verbose web
  berth service info -filter 'Tags contains "blue"' web`,
		Run: func(ctx context.Context, args []string) error {
			list, more, err := e.Client().Services().Get(ctx, args[0], page.Query())
			if err == nil && len(list) == 0 {
				all, next, err := inConsul(ctx, e, args[0], page.Query())
				if err != nil || len(all) > 0 {
					return formats.Show(e.Out, all, page.Doing(err, "the instances of the service"), func() {
						showInConsul(e, all, verbose)
						unwritten(ctx, e, args[0], all, verbose)
						page.More(e, next)
					})
				}
			}
			if err == nil && len(list) == 0 && page.Query().Filter == "" && !formats.Wanted() {
				return kit.Fail(fault.NotFound, `"berth service list" lists the services that are found`,
					"nobody is found as service %q", args[0])
			}
			return formats.Show(e.Out, list, page.Doing(err, "the instances of the service"), func() {
				showInstances(e, list, verbose)
				page.More(e, more)
			})
		},
	}
	page.AddTo(cmd)
	cmd.Flags().BoolVar(&verbose, "verbose", false, "whole ids, and the ids of the registrations")
	return formats.AddTo(cmd)
}

// address is where an instance is.
func address(r *api.ServiceRegistration) string {
	if r.Port == 0 {
		return r.Address
	}
	return net.JoinHostPort(r.Address, strconv.Itoa(r.Port))
}

func showInstances(e *kit.Env, list []*api.ServiceRegistration, verbose bool) {
	slices.SortFunc(list, func(a, b *api.ServiceRegistration) int {
		return cmp.Or(strings.Compare(a.JobID, b.JobID), strings.Compare(a.ID, b.ID))
	})
	if !verbose {
		header := []string{"Job ID", "Address", "Tags", "Node ID", "Alloc ID"}
		kit.List(e.Out, list, "instances", header, func(r *api.ServiceRegistration) []string {
			return []string{r.JobID, address(r), "[" + strings.Join(r.Tags, ",") + "]", kit.ID(r.NodeID, false),
				kit.ID(r.AllocID, false)}
		})
		return
	}
	for i, r := range list {
		if i > 0 {
			e.Out.Printf("\n")
		}
		e.Out.Pairs(kit.Pairs{
			{"ID", r.ID},
			{"Service Name", r.ServiceName},
			{"Namespace", r.Namespace},
			{"Job ID", r.JobID},
			{"Alloc ID", r.AllocID},
			{"Node ID", r.NodeID},
			{"Datacenter", r.Datacenter},
			{"Address", address(r)},
			{"Tags", "[" + strings.Join(r.Tags, ",") + "]"},
		})
	}
}

func newDelete(e *kit.Env) *kit.Command {
	return &kit.Command{
		Use:   "delete [flags] <service> <registration>",
		Short: "Have an instance of a service found no more",
		Long: `Takes the registration of an instance away, by the id that "berth service info" shows with -verbose. The
instance runs on, and is not found again under this name. Those of allocations that have ended need no deletion: they
are found no more.`,
		Example: "  berth service delete web _nomad-task-4ff1d9c5-0d0e-4b21-a3a8-8a3d54a3c0a2-group-g-web-http",
		Run: func(ctx context.Context, args []string) error {
			if err := e.Client().Services().Delete(ctx, args[0], args[1], nil); err != nil {
				return kit.Doing(err, "delete", "registration", args[1])
			}
			e.Out.Printf("Registration of service %q deleted\n", args[0])
			return nil
		},
	}
}
