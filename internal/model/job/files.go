package job

import (
	"slices"
	"time"
)

// SchemaFiles is the number of the cluster from which on jobs may have artifacts, and templates that are read from
// files or wait, run a script, or are rendered before restarts.
const SchemaFiles = 13

// Artifact is something fetched into a task's directories before the task starts.
type Artifact struct {
	GetterSource   string
	GetterOptions  map[string]string
	GetterHeaders  map[string]string
	GetterMode     string // any, file or dir
	GetterInsecure bool   // whoever answers is believed, whatever certificate he shows
	RelativeDest   string
	Chown          bool // it becomes the task's user's, not the agent's
}

// ChangeModeScript runs a program in the task when a template has changed.
const ChangeModeScript = "script"

// ChangeScript is a program run in the task when a template has changed.
type ChangeScript struct {
	Command     string
	Args        []string
	Timeout     time.Duration
	FailOnError bool
}

// WaitConfig is how long changes of a template are gathered before it is rendered: until it is quiet for Min, but no
// longer than Max.
type WaitConfig struct{ Min, Max time.Duration }

// BringsFiles reports whether a job asks for something that only SchemaFiles knows.
func (j *Job) BringsFiles() bool {
	again := func(p *RestartPolicy) bool { return p != nil && p.RenderTemplates }
	for _, g := range j.TaskGroups {
		if again(g.RestartPolicy) {
			return true
		}
		for _, t := range g.Tasks {
			if len(t.Artifacts) > 0 || again(t.RestartPolicy) || slices.ContainsFunc(t.Templates, (*Template).further) {
				return true
			}
		}
	}
	return false
}

func (t *Template) further() bool {
	return t.SourcePath != "" || t.ChangeScript != nil || t.Wait != nil
}
