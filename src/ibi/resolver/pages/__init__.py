"""What a resolver answers besides redirects: pages, explanations, registration, administration, other protocols.

Handlers read a request, call what decides, and answer; what a page shows is a value, which `ibi.web` writes as HTML.

Entry points: `site.Site`, `registration.RegistrationHandler`, `administration`, `programs`.
"""
