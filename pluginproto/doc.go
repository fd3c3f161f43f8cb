// Package pluginproto owns the public protocol of plugins, in packages beneath it, and the test that no number of it
// ever changes: plugins that others have built speak it.
package pluginproto
