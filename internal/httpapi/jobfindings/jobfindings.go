// Package jobfindings owns what is said of a job that is refused: what the rules of the surface find and what the
// servers find by their state, in one list, so that its author mends all of it at once. Only httpapi imports it.
package jobfindings

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// Error is a list of findings in the form that clients know.
type Error struct {
	Findings []error
	Warnings []string // of the servers: what they know of no node is no error
	Status   error    // nil: the one that clients know for jobs that are not valid
}

// Unwrap makes the status the error's.
func (e *Error) Unwrap() error { return e.Status }

func (e *Error) Error() string {
	if len(e.Findings) == 1 {
		return "1 error occurred:\n\t* " + e.Findings[0].Error() + "\n\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d errors occurred:\n", len(e.Findings))
	for _, one := range e.Findings {
		b.WriteString("\t* " + one.Error() + "\n")
	}
	b.WriteString("\n")
	return b.String()
}

// List gives the findings of a refusal, and what is worth a warning beside them; another error is one by itself.
func List(err error) (findings, warnings []string) {
	var e *Error
	if !errors.As(err, &e) {
		return []string{err.Error()}, nil
	}
	for _, one := range e.Findings {
		findings = append(findings, one.Error())
	}
	return findings, e.Warnings
}

// Whole adds to what the rules of the surface have found in a job what the servers find in the rest of it. Servers that
// cannot be asked are one more finding: their answer is still to come.
func Whole(ctx context.Context, servers wire.Conn, j *job.Job, own []error) *Error {
	out := &Error{Findings: own}
	asked := judgeable(j)
	reply, err := wire.JobValidate.Call(ctx, servers, &wire.JobValidateRequest{Job: asked})
	if err != nil {
		out.Findings = append(out.Findings, fault.Note(err, "ask", "the servers what else is wrong"))
		return out
	}
	if ids.ValidJob(string(j.ID)) != nil { // servers say so first, as the rules have
		reply.Errors = reply.Errors[min(1, len(reply.Errors)):]
	}
	known := map[string]bool{} // what the rules say in words of their own, as they ask more
	for _, e := range asked.Misshapen() {
		known[fmt.Sprintf("register job %q: %s", j.ID, e)] = true
	}
	for _, text := range reply.Errors {
		if !known[text] {
			out.Findings = append(out.Findings, errors.New(text))
		}
	}
	out.Warnings = reply.Warnings
	return out
}

// judgeable is a copy of a job within its bounds, without what the rules of the surface refuse and servers would refuse
// again: ways to use a volume that there are not become one that there is, volumes without a proper name are left out,
// and who names no namespace means the usual one.
func judgeable(j *job.Job) *job.Job {
	c := j.Within()
	if c.Namespace == wire.AllNamespaces {
		c.Namespace = ids.DefaultNamespace
	}
	for _, g := range c.TaskGroups {
		all := g.Volumes
		g.Volumes = map[string]*job.VolumeRequest{}
		for alias, v := range all {
			if ids.ValidVolume(v.Source) == nil {
				g.Volumes[alias] = usable(v)
			}
		}
	}
	return c
}

func usable(v *job.VolumeRequest) *job.VolumeRequest {
	as := *v
	if !volume.AccessMode(v.AccessMode).Valid() {
		as.AccessMode = string(volume.SingleNodeWriter)
	}
	if !volume.AttachmentMode(v.AttachmentMode).Valid() {
		as.AttachmentMode = string(volume.FileSystem)
	}
	return &as
}
