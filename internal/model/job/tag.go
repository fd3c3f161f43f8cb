package job

// SchemaTags is the schema of a cluster whose servers keep the versions of jobs that have names.
const SchemaTags = 14

// MaxTags is how many versions of a job may have names: they are kept until somebody takes the names away.
const MaxTags = 100

// VersionTag is a name that a person has given to a version of a job.
type VersionTag struct {
	Name        string
	Description string
	TaggedTime  int64 // nanoseconds since the epoch
}

// Tagged is the version of a list that has a name, or nil.
func Tagged(versions []*Job, name string) *Job {
	for _, v := range versions {
		if v.VersionTag != nil && v.VersionTag.Name == name {
			return v
		}
	}
	return nil
}
