// Package certificate keeps the certificates by which API servers know Weir's webhooks, without another operator.
//
// One Secret holds the serving pair and the authorities that are trusted: tls.crt, tls.key and ca.crt, as cert-manager
// writes them, and authorities.json, which is for the rotation alone. Every replica serves the pair of the Secret
// ([Serving]); the elected one renews it ([Rotator]) and writes the authorities' bundle into the webhook configurations.
//
// An authority is replaced with overlap. The new one is trusted first: it stands in the bundle beside the old, and only
// when every configuration has carried it for a while does a certificate signed by it serve. The old one stays trusted
// until the last certificate that it signed has expired, so that no replica is ever too late. What to do when is pure
// ([Terms.Next]): the state, what the configurations carry, the time.
package certificate
