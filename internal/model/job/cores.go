package job

// SchemaCores is the schema of a cluster that takes tasks which ask for whole cores.
const SchemaCores = 15

// NUMAResource says how near to each other the cores of a task are: model/cores has the words.
type NUMAResource struct{ Affinity string }

// AsksForCores reports whether a task of the job gets whole cores.
func (j *Job) AsksForCores() bool {
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			if t.Resources != nil && t.Resources.Cores > 0 {
				return true
			}
		}
	}
	return false
}
