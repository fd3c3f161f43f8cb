// Package identities owns the rules of identity blocks in jobs: what is filled in, and what is refused. Package
// jobrules imports it.
package identities

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/base/pattern"
	"berth/internal/model/job"
	"berth/internal/model/workload"
)

// Canonicalize fills in what is not said. That there is an identity named default, without a word of how the
// task finds it, is so for every task: it is left out.
func Canonicalize(t *api.Task) {
	if id := t.Identity; id != nil {
		id.Name = cmp.Or(id.Name, job.DefaultIdentity)
		if len(id.Audience) == 0 {
			id.Audience = []string{workload.Audience}
		}
		canonicalIdentity(id)
		if bare(id) {
			t.Identity = nil
		}
	}
	for _, id := range t.Identities {
		if id != nil {
			canonicalIdentity(id)
		}
	}
	t.Identities = slices.DeleteFunc(t.Identities, func(id *api.WorkloadIdentity) bool { return id == nil })
}

func canonicalIdentity(id *api.WorkloadIdentity) {
	id.ChangeSignal = strings.ToUpper(id.ChangeSignal)
	if id.TTL == 0 && id.ChangeMode == "" && id.ChangeSignal == "" {
		return // it never changes
	}
	id.ChangeMode = cmp.Or(id.ChangeMode, "restart")
	if id.ChangeMode == "signal" {
		id.ChangeSignal = cmp.Or(id.ChangeSignal, "SIGHUP")
	}
}

// bare tells whether an identity named default says nothing that is not so without it.
func bare(id *api.WorkloadIdentity) bool {
	return !id.Env && !id.File && id.Filepath == "" && id.TTL == 0 && id.ChangeMode == "" && id.ChangeSignal == "" &&
		len(id.ExtraClaims) == 0 && id.ServiceName == "" && slices.Equal(id.Audience, []string{workload.Audience})
}

// Checker says what is wrong.
type Checker func(format string, args ...any)

var identityName = pattern.Of(`^[a-zA-Z0-9-_]{1,128}$`)

// maxAudience bounds whom one identity names, and maxIdentities how many one task has: each is signed again and again.
const maxAudience, maxIdentities = 16, 16

// Task judges the identities of a task.
func (c Checker) Task(at string, g *api.TaskGroup, t *api.Task) {
	shown := shownOf(g, t) // which are judged with their services
	if n := len(t.Identities) + len(shown); n > maxIdentities {
		c("%s: it has %d identity blocks, with those of its services, at most %d are taken", at, n, maxIdentities)
		return
	}
	variables, files := map[string]string{}, map[string]string{}
	all := t.Identities
	if t.Identity != nil {
		c.defaultIdentity(at, t.Identity)
		all = append([]*api.WorkloadIdentity{t.Identity}, all...)
	}
	for i, id := range all {
		here := fmt.Sprintf("%s: identity %q", at, shorten(id.Name))
		if !identityName().MatchString(id.Name) {
			c("%s: a name has 1 to 128 letters, digits, - and _", here)
			continue
		}
		if id.Name == job.DefaultIdentity && (i > 0 || t.Identity == nil) {
			c("%s: the identity of this name stands by itself, as Identity", here)
			continue
		}
		c.identity(here, id)
		c.unlikeOthers(here, variables, files, id)
	}
	for _, id := range shown {
		c.unlikeOthers(fmt.Sprintf("%s: identity %q", at, shorten(id.Name)), variables, files, id)
	}
}

func (c Checker) unlikeOthers(at string, variables, files map[string]string, id *api.WorkloadIdentity) {
	c.unlike(at, variables, "variable of", workload.Variable(id.Name), id.Name)
	if id.File {
		where := workload.File(&job.WorkloadIdentity{Name: id.Name, Filepath: id.Filepath})
		c.unlike(at, files, "file of", where, id.Name)
	}
}

// unlike refuses what another identity has as well.
func (c Checker) unlike(at string, had map[string]string, what, value, name string) {
	if other, twice := had[value]; twice {
		c("%s: %s is the %s identity %q, too; rename one", at, value, what, shorten(other))
	}
	had[value] = name
}

func (c Checker) defaultIdentity(at string, id *api.WorkloadIdentity) {
	if id.TTL != 0 {
		c("%s: the identity default is good as long as the task runs; leave ttl out, or name the identity", at)
	}
	if !slices.Equal(id.Audience, []string{workload.Audience}) {
		c("%s: the identity default is for this API alone (aud = [%q]); name the one that is for others", at,
			workload.Audience)
	}
}

func (c Checker) identity(at string, id *api.WorkloadIdentity) {
	if len(id.Audience) > maxAudience {
		c("%s: aud names %d, at most %d are taken", at, len(id.Audience), maxAudience)
	}
	if slices.ContainsFunc(id.Audience, func(a string) bool { return a == "" || len(a) > 256 }) {
		c("%s: each aud has 1 to 256 characters", at)
	}
	switch {
	case id.Filepath == "":
	case !id.File:
		c("%s: filepath needs file = true", at)
	case strings.ContainsRune(id.Filepath, 0), strings.Contains(id.Filepath, "${"):
		c("%s: filepath %q must be a plain path", at, shorten(id.Filepath))
	case slices.Contains(strings.Split(id.Filepath, "/"), ".."), strings.HasPrefix(id.Filepath, "/"),
		(&job.Template{DestPath: id.Filepath}).Astray(), !ownFile(id.Filepath):
		c("%s: filepath %q is no file of the task's own; begin it with secrets/ or local/", at,
			shorten(id.Filepath))
	}
	if id.TTL != 0 && id.TTL < workload.MinTTL {
		c("%s: ttl must be at least %s, is %s", at, workload.MinTTL, id.TTL)
	}
	c.claims(at, id.ExtraClaims)
	if !slices.Contains([]string{"", "restart", "signal", "noop"}, id.ChangeMode) {
		c("%s: change_mode must be restart, signal or noop, is %q", at, shorten(id.ChangeMode))
	}
	if id.ChangeSignal != "" && id.ChangeMode != "signal" {
		c("%s: change_signal needs change_mode = \"signal\"", at)
	}
	if id.Env && id.ChangeMode == "signal" {
		c("%s: a variable of a running task cannot change: with env use restart or noop, or file instead", at)
	}
}

// claims checks what a job adds to what an identity says.
func (c Checker) claims(at string, claims map[string]string) {
	if len(claims) > workload.MaxClaims {
		c("%s: extra_claims has %d, at most %d are taken", at, len(claims), workload.MaxClaims)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		text := claims[name]
		switch unknown := workload.UnknownReference(text); {
		case name == "", len(name) > workload.MaxClaimName:
			c("%s: a name in extra_claims has 1 to %d characters", at, workload.MaxClaimName)
		case len(text) > workload.MaxClaimValue:
			c("%s: the claim %q has %d characters, at most %d are taken", at, shorten(name), len(text),
				workload.MaxClaimValue)
		case unknown != "":
			c("%s: the claim %q says %s, which stands for nothing there; there are %s", at, shorten(name),
				shorten(unknown), strings.Join(workload.ClaimReferences(), ", "))
		}
	}
}

// ownFile tells paths in the directories of the task alone: those of its group see what lies in alloc/.
func ownFile(path string) bool {
	first, rest, _ := strings.Cut(path, "/")
	return (first == job.SecretsDir || first == job.LocalDir) && rest != "" && !strings.HasSuffix(rest, "/")
}

func shorten(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
