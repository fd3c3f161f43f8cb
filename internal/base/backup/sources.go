package backup

// Sources are what of a data directory in use goes into a backup. Paths in it are beneath the data directory.
type Sources struct {
	// NodeID is whose directory it is; empty: a server's that has no node beside it.
	NodeID string
	// Files are small, and replaced in one step by whoever changes them.
	Files []string
	// Store is where the node's store lies; the agent alone can read it.
	Store string
	// Plugin is the id of the bundled plugin.
	Plugin string
	// Images are the volumes and snapshots that it keeps.
	Images []Image
	// Damaged are records of it that cannot be read, and snapshots that have lost their content.
	Damaged []error
}

// Image is a volume or a snapshot of the bundled plugin: a directory of two files.
type Image struct {
	ID       string // as the plugin calls it
	Name     string
	Snapshot bool
	Record   string // path of its record, which is replaced in one step
	Data     string // path of what is on it; that of a snapshot never changes
	Takes    int64  // bytes that Data takes of its file system
}
