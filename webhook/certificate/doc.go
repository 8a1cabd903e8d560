// Package certificate issues and rotates the serving certificates of Weir's webhooks. It needs no other operator.
//
// One Secret holds the serving certificate with its key and the trusted CAs. Its keys are tls.crt, tls.key and ca.crt, as with
// cert-manager, and authorities.json, which only the rotation reads. Every replica serves the certificate in the Secret
// ([Serving]). The elected replica renews it ([Rotator]) and writes the CA bundle to the webhook configurations.
//
// CAs are replaced with overlap. A new CA is first added to the bundle next to the old one. It signs a serving certificate only
// after every webhook configuration has contained it for some time. The old CA stays in the bundle until the last certificate
// that it signed has expired, so a replica may renew late. [Rotation.Advance] decides what to do. It is a pure function of the
// state, the published bundles and the time.
package certificate
