package keepers

import (
	"strings"

	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
)

// job registers a job that says how its volumes are made, by plugin p.
func (w *world) job(name string, words []string) error {
	g := &job.TaskGroup{Name: "g", Count: 1, Volumes: map[string]*job.VolumeRequest{}}
	j := &job.Job{
		ID:         ids.Job(name),
		Namespace:  ids.DefaultNamespace,
		Region:     "global",
		Type:       job.TypeService,
		Priority:   50,
		TaskGroups: []*job.TaskGroup{g},
	}
	for _, word := range words {
		if on, ok := strings.CutPrefix(word, "on="); ok {
			c := &job.Constraint{LTarget: "${node.unique.name}", Operand: "=", RTarget: on}
			j.Constraints = append(j.Constraints, c)
			continue
		}
		g.Volumes[word] = &job.VolumeRequest{
			Name:           word,
			Type:           job.VolumeTypeCSI,
			Source:         word,
			AccessMode:     string(volume.SingleNodeWriter),
			AttachmentMode: string(volume.FileSystem),
			Create:         &job.VolumeCreate{PluginID: "p", CapacityMin: 1000},
		}
	}
	_, _, err := w.c.Propose(w.t.Context(), &fsm.JobRegister{Job: j, Seed: ids.New()})
	return err
}
