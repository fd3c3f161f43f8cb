package services

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"berth/api"
	"berth/internal/cli/kit"
)

// Entries shows how what a job's gateways do stands in Consul.
func Entries(p *kit.Printer, list []*api.ConsulEntryStatus, verbose bool) {
	kit.List(p, list, "entries", []string{"Kind", "Name", "Written", "Since", "Reason"},
		func(e *api.ConsulEntryStatus) []string {
			return []string{e.Kind, e.Name, kit.Yes(e.Written), since(e.Since, verbose), cmp.Or(e.Reason, "-")}
		})
}

// since is a time of Unix seconds for people.
func since(seconds int64, verbose bool) string {
	if seconds == 0 {
		return "-"
	}
	return kit.When(time.Unix(seconds, 0).UnixNano(), verbose)
}

// unwritten says of each job of instances what of the gateway of this name Consul does not have.
func unwritten(ctx context.Context, e *kit.Env, name string, list []*instance, verbose bool) {
	asked := map[[2]string]bool{}
	for _, i := range list {
		of := [2]string{i.Namespace, i.JobID}
		if asked[of] {
			continue
		}
		asked[of] = true
		all, err := e.Client().Jobs().ConsulEntries(ctx, i.JobID, &api.QueryOptions{Namespace: i.Namespace})
		if err != nil {
			e.Err.Notice(fmt.Sprintf("what the gateways of job %q do is not known: %s", i.JobID,
				kit.OneSentence(err.Error())))
		}
		for _, s := range all {
			if s.Name == name && !s.Written {
				e.Out.Notice(fmt.Sprintf("Consul does not have the entry %s %q of job %q since %s: %s", s.Kind, s.Name,
					i.JobID, since(s.Since, verbose), kit.Clean(s.Reason)))
			}
		}
	}
}
