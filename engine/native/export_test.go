package native

// LogLimit and TrimLog let a test cut a log without an engine that writes 50 MiB.
const LogLimit = logLimit

var TrimLog = trimLog
